"""Markers that register a plugin's functions as hooks."""

from __future__ import annotations

import pluggy

CONTRACT = 1
"""Number of the contract. It grows when a hook's meaning changes; new arguments do not change it."""

PROJECT = "primus"

spec = pluggy.HookspecMarker(PROJECT)
host = pluggy.HookimplMarker(PROJECT)
"""Marks a host-side hook implementation: ``@host``."""
rank = pluggy.HookimplMarker(PROJECT)
"""Marks a rank-side hook implementation: ``@rank``."""
