"""TorchTitan's own data sets, which no training here reads: the tokens are those that every back end gets."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from primus_backend_torchtitan.host.draft import Draft
from primus_core.errors import ConfigError, PrimusError

_SECTIONS = {"dataloader": "train_data_path", "validator.dataloader": "valid_data_path"}
"""Sections of data, with the portable name of what they are read from."""
_OWN = "huggingface_text"


def unreadable(draft: Draft) -> Iterator[PrimusError]:
    """Errors for a loader that would read other tokens than those that were prepared."""
    for section, portable in _SECTIONS.items():
        wish = draft.asked.wishes.get(f"{section}.kind")
        if wish and wish.value == _OWN:
            yield ConfigError(
                f"`{wish.path}` cannot be {_OWN} here",
                where=str(wish.leaf.origin),
                why="Primus reads the data, so that every back end trains on the same tokens",
                remedy=f"remove it, and name texts, JSONL, Parquet or indexed data with `{portable}`",
            )


def adjust_data(draft: Draft) -> None:
    """A data set by its name in TorchTitan acts on nothing; the user hears of it."""
    for section, portable in _SECTIONS.items():
        for native in (f"{section}.dataset", f"{section}.dataset_path"):
            if draft.is_set(native):
                draft.drop(native, f"Primus reads the data: what `{portable}` names, or made-up tokens with mock_data")
                draft.unused[native] = evolve(draft.unused[native], severity="warning")
