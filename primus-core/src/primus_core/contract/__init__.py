"""What a plugin implements. Import this, and nothing else of core, in a plugin's host side."""

from primus_core.contract.markers import CONTRACT, host, rank
from primus_core.contract.specs import HostSpec, RankContext, RankSpec

__all__ = ["CONTRACT", "HostSpec", "RankContext", "RankSpec", "host", "rank"]
