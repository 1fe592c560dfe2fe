"""What a plugin promises, as tests that its package inherits: subclass a contract, say what to test, run pytest.

    from primus_core.testing import LauncherContract


    class TestNice(LauncherContract):
        plugin = "nice"

Needs pytest: ``pip install "primus-core[testing]"``.
"""

from primus_core.testing.backend import BackendContract
from primus_core.testing.launcher import LauncherContract
from primus_core.testing.preflight import PreflightContract

__all__ = ["BackendContract", "LauncherContract", "PreflightContract"]
