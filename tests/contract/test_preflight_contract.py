"""The checks of hosts keep their contract."""

from __future__ import annotations

from primus_core.testing import PreflightContract


class TestHost(PreflightContract):
    """The workspace and its file system."""

    plugin = "host"
