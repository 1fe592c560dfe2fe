"""Where Megatron reads and writes: absolute paths that exist, and its own defaults inside the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator

from primus_backend_megatron.checkpoints import marked_checkpoints
from primus_backend_megatron.host.draft import Draft
from primus_backend_megatron.host.names import PATHS_READ, PATHS_WRITTEN
from primus_core.errors import ConfigError

_TO_START_FROM = ("load", "pretrained_checkpoint")


def adjust_paths(draft: Draft) -> None:
    """Make paths absolute, then place what nobody named."""
    for name in (*PATHS_READ, *PATHS_WRITTEN):
        value = draft.asked.values.get(name)
        if isinstance(value, str) and value and _absolute(value) != value:
            home = value.startswith("~")
            why = "~ is the home folder" if home else "relative to the folder that primus was called in"
            draft.adjust(name, _absolute(value), why)
    _place_checkpoints(draft)
    if draft["data_cache_path"] is None and not draft["mock_data"]:
        why = "Megatron would write the order of the samples next to the data"
        draft.adjust("data_cache_path", f"{draft.workspace}/cache/megatron-indices", why)
    if draft["record_memory_history"]:
        why = "Megatron would write it to the current folder"
        draft.adjust_unset("memory_snapshot_path", f"{draft.folder}/memory-snapshot.pickle", why)


def absent(draft: Draft) -> Iterator[ConfigError]:
    """An error for each path to read that does not exist; not for one that a continued run no longer reads."""
    for name in PATHS_READ:
        value = draft.asked.values.get(name)
        if not isinstance(value, str) or not value or _is_address(value) or os.path.exists(_absolute(value)):
            continue
        if name not in _TO_START_FROM or not _continues(draft):
            yield ConfigError(
                f"`{draft.asked.paths[name]}` names a path that does not exist: {value}",
                where=str(draft.asked.leaves[name].origin),
                why="" if _absolute(value) == value else f"it means {_absolute(value)}",
                remedy=f"correct the path, or remove `{draft.asked.paths[name]}`",
            )


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


def _continues(draft: Draft) -> bool:
    """Whether the run goes on from a checkpoint of its own, wherever it started from."""
    save = draft.asked.values.get("save", _own_checkpoints(draft))
    return draft.auto_continue and isinstance(save, str) and bool(marked_checkpoints(_absolute(save)))
