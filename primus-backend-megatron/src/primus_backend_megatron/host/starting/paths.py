"""Files and folders to read, beside data and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.names import PATHS_READ
from primus_backend_megatron.host.starting.told import finding
from primus_core.outcome import Finding
from primus_core.planning.addresses import is_address

CHECKPOINTS = ("load", "load_hf", "pretrained_checkpoint")


def check_paths(case: Case) -> Iterator[Finding]:
    """A finding for each that does not exist."""
    for name in PATHS_READ:
        value = case.values.get(name)
        if name in CHECKPOINTS or not isinstance(value, str) or not value or is_address(value):
            continue
        if not os.path.exists(value):
            path = case.paths.get(name, name)
            summary = f"`{path}` names a path that does not exist: {value}"
            yield finding(case, "path", summary, (name,), f"correct the path, or remove `{path}`")
