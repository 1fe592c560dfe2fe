"""Where Megatron reads and writes: absolute paths, and its own defaults inside the workspace."""

from __future__ import annotations

import os

from primus_backend_megatron.host.draft import Draft
from primus_backend_megatron.host.names import PATHS_READ, PATHS_WRITTEN


def adjust_paths(draft: Draft) -> None:
    """Make paths absolute, then place what nobody named."""
    for name in (*PATHS_READ, *PATHS_WRITTEN):
        value = draft.asked.values.get(name)
        if isinstance(value, str) and value and _absolute(value) != value:
            home = value.startswith("~")
            why = "~ is the home folder" if home else "relative to the folder that primus was called in"
            draft.adjust(name, _absolute(value), why)
    _place_checkpoints(draft)
    if draft["load"] or draft["pretrained_checkpoint"]:
        why = "a run that was given a checkpoint never starts from random weights instead"
        draft.adjust("exit_on_missing_checkpoint", True, why)
    if draft["data_cache_path"] is None and not draft["mock_data"]:
        why = "Megatron would write the order of the samples next to the data"
        draft.adjust("data_cache_path", f"{draft.workspace}/cache/megatron-indices", why)
    if draft["record_memory_history"]:
        why = "Megatron would write it to the current folder"
        draft.adjust_unset("memory_snapshot_path", f"{draft.folder}/memory-snapshot.pickle", why)


def _absolute(path: str) -> str:
    """From the folder that primus was called in, or the user's home; absolute paths and addresses as they are."""
    expanded = os.path.expanduser(path)
    return expanded if os.path.isabs(expanded) or _is_address(path) else os.path.abspath(expanded)


def _is_address(path: str) -> bool:
    """Object storage (``msc://``), which Megatron reads through a library of its own."""
    return "://" in path


def _place_checkpoints(draft: Draft) -> None:
    """An interval without a folder saves to the experiment's own; ``save: null`` turns saving off."""
    if draft["save_interval"] is not None and not draft.is_set("save"):
        draft.adjust("save", _own_checkpoints(draft), "save_interval is set and `save` is not")


def _own_checkpoints(draft: Draft) -> str:
    return f"{draft.folder}/checkpoints"
