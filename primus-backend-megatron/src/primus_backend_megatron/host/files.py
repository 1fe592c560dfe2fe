"""Where Megatron reads and writes: absolute paths, and its own defaults inside the workspace."""

from __future__ import annotations

import os

from primus_backend_megatron.host.draft import Draft
from primus_backend_megatron.host.names import PATHS_READ, PATHS_WRITTEN


def adjust_paths(draft: Draft) -> None:
    """Make relative paths absolute, then place what nobody named."""
    for name in (*PATHS_READ, *PATHS_WRITTEN):
        value = draft.asked.values.get(name)
        if isinstance(value, str) and value and not os.path.isabs(value):
            draft.adjust(name, os.path.abspath(value), "relative to the folder that primus was called in")
    _place_checkpoints(draft)
    if draft["data_cache_path"] is None and not draft["mock_data"]:
        why = "Megatron would write the order of the samples next to the data"
        draft.adjust("data_cache_path", f"{draft.workspace}/cache/megatron-indices", why)
    if draft["record_memory_history"]:
        why = "Megatron would write it to the current folder"
        draft.adjust_unset("memory_snapshot_path", f"{draft.folder}/memory-snapshot.pickle", why)


def _place_checkpoints(draft: Draft) -> None:
    """An interval without a folder saves to the experiment's own; ``save: null`` turns saving off."""
    if draft["save_interval"] is not None and not draft.is_set("save"):
        draft.adjust("save", f"{draft.folder}/checkpoints", "save_interval is set and `save` is not")
