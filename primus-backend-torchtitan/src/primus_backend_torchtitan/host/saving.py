"""Checkpoints: when and where they are saved, and what they keep; the same as with every back end."""

from __future__ import annotations

import os
from collections.abc import Iterator

from primus_backend_torchtitan.host.asked import Asked, Wish
from primus_backend_torchtitan.host.draft import Draft
from primus_core.errors import ConfigError


def unsavable(asked: Asked) -> Iterator[ConfigError]:
    """Errors for folders to which nothing can be saved, or would ever be, and for what cannot be kept."""
    folder, kept = asked.wishes.get("checkpoint.folder"), asked.wishes.get("checkpoint.keep_latest_k")
    if folder and folder.value and not {"checkpoint.interval", "checkpoint.enable"} & set(asked.wishes):
        yield ConfigError(
            f"`{folder.path}` is set and `save_interval` is not",
            where=str(folder.leaf.origin),
            why="no checkpoint would be saved to it",
            remedy="set save_interval, for example:\n  save_interval: 1000",
        )
    if kept and kept.value == 1:
        yield ConfigError(
            f"`{kept.path}` is 1",
            where=str(kept.leaf.origin),
            why="while the next checkpoint is written, the last one is all that there is",
            remedy="keep 2 or more; 0 keeps all",
        )
    yield from filter(None, map(_remote, map(asked.wishes.get, ("checkpoint.folder", "checkpoint.load"))))


def _remote(wish: Wish | None) -> ConfigError | None:
    if wish is None or not isinstance(wish.value, str) or "://" not in wish.value:
        return None
    return ConfigError(
        f"`{wish.path}` is object storage: {wish.value}",
        where=str(wish.leaf.origin),
        why="which of its checkpoints are whole is told by files that are put in place in one step",
        remedy="name a folder: where the storage is mounted, or a copy of it",
    )


def adjust_saving(draft: Draft) -> None:
    """An interval saves to the experiment's own folder; checkpoints keep the optimizer's state, and stay."""
    off = draft.is_set("checkpoint.folder") and not draft["checkpoint.folder"]
    if off:
        draft.drop("checkpoint.folder", "null: no checkpoints are saved")
    draft.adjust_unset("dump_folder", f"{draft.folder}/torchtitan", "what is written belongs to the experiment")
    if draft.is_set("checkpoint.interval") and not off:
        draft.adjust_unset("checkpoint.enable", True, "save_interval is set")
    _make_absolute(draft, "checkpoint.load")
    _make_absolute(draft, "checkpoint.load_hf")
    if not _make_absolute(draft, "checkpoint.folder") and draft["checkpoint.enable"]:
        draft.adjust("checkpoint.folder", f"{draft.folder}/checkpoints", "the experiment's own folder")
    why = "all checkpoints keep the optimizer's state, so that every one can be continued"
    draft.adjust_unset("checkpoint.last_save_model_only", False, why)
    draft.adjust_unset("checkpoint.keep_latest_k", 0, "nothing is deleted until it is asked for")
    if not draft["checkpoint.initial_load_path"] and not draft["checkpoint.initial_load_in_hf"]:
        why = "there is no initial checkpoint; TorchTitan would warn of it"
        draft.adjust_unset("checkpoint.initial_load_model_only", False, why)
        draft.adjust_unset("hf_assets_path", "", "nothing is read from a Hugging Face folder")
    if draft["checkpoint.load"] and not draft["checkpoint.enable"]:
        draft.adjust_unset("checkpoint.enable", True, "a checkpoint is to be loaded")
        draft.adjust_unset("checkpoint.load_only", True, "save_interval is not set: no checkpoints are saved")


def _make_absolute(draft: Draft, native: str) -> bool:
    """Whether a folder was named."""
    value = draft[native]
    if not draft.is_set(native) or not isinstance(value, str) or not value:
        return False
    if "://" not in value:
        base, why = _base(draft, native, value)
        draft.adjust(native, os.path.abspath(os.path.join(base, os.path.expanduser(value))), why)
    return True


def _base(draft: Draft, native: str, value: str) -> tuple[str, str]:
    """Where a folder counts from, and why: TorchTitan's own name of the one for saving is inside its `dump_folder`."""
    if value.startswith("~"):
        return "", "~ is the home folder"
    if native == "checkpoint.folder" and draft.asked.wishes[native].path == native:
        return str(draft["dump_folder"]), "TorchTitan's folder of checkpoints is inside `dump_folder`"
    return "", "relative to the folder that primus was called in"
