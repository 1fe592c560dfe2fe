"""Names of core's parameters for checkpoints."""

from __future__ import annotations

KEEP = ("keep_last_checkpoints", "keep_every_checkpoint")
"""Which checkpoints stay; see `primus_core.checkpoints.retention`."""
