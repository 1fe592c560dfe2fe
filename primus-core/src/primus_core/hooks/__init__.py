"""The typed facade around pluggy: loads exactly the plugins that a run names and calls their hooks.

Nothing here depends on the order in which plugins were installed or registered.
"""

from primus_core.hooks.facade import HostPlugins, RankPlugins, load_host, load_rank
from primus_core.hooks.findings import as_errors
from primus_core.hooks.translation import check_translation

__all__ = ["HostPlugins", "RankPlugins", "as_errors", "check_translation", "load_host", "load_rank"]
