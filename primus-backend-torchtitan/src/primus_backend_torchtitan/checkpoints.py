"""TorchTitan's checkpoints: which of a folder are whole. Standard library only: hosts and ranks both ask.

Those of ours have a marker (`primus_core.checkpoints.folders`). Other people's have none; their metadata, which is
written last, is believed, unless a ``.saving`` file says that we were overwriting that very checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from primus_core.checkpoints.choosing import Library, Wish
from primus_core.checkpoints.dcp import is_dcp
from primus_core.checkpoints.folders import LIBRARIES, Checkpoint
from primus_core.experiment import Value

NAMING = LIBRARIES["TorchTitan"]


def _newest(folder: Path) -> Checkpoint | None:
    for iteration in reversed(NAMING.steps(folder)):
        path = NAMING.folder(folder, iteration)
        if is_dcp(path) and not NAMING.is_saving(folder, iteration):
            return Checkpoint(folder=path, iteration=iteration, marked=False)
    return None


TITAN = Library(name="TorchTitan", newest=_newest, holds_for_whole=is_dcp, voucher="a .metadata file")


def wish_of(values: Mapping[str, Value], *, auto_continue: bool) -> Wish:
    """The parameters that decide what a run starts from.

    Args:
        values: TorchTitan's parameters by path; those that are not set may be missing.
    """
    saves = values.get("checkpoint.enable") and not values.get("checkpoint.load_only")
    step = values.get("checkpoint.load_step")
    return Wish(
        save=_text(values, "checkpoint.folder") if saves else None,
        load=_text(values, "checkpoint.load"),
        load_hf=_text(values, "checkpoint.load_hf"),
        load_step=step if isinstance(step, int) and step >= 0 else None,
        auto_continue=auto_continue,
    )


def _text(values: Mapping[str, Value], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and value else None
