"""Data, tokenizer and evaluation: what Primus does itself, and what is left for Megatron."""

from __future__ import annotations

from primus_backend_megatron.host.draft import Draft
from primus_backend_megatron.host.names import TOKENIZER_DETAILS
from primus_backend_megatron.host.split import ALL_TRAINING, MEGATRON_SPLIT
from primus_core.errors import ConfigError, PrimusError

BYTE_LEVEL = "ByteLevelTokenizer"
"""The tokenizer built into Primus; Megatron has no such type and never sees it."""

NEVER = 1_000_000_000
"""An evaluation interval that no run reaches; Megatron divides by it even where evaluation is off."""

_PER_SPLIT = ("valid_data_path", "test_data_path")
_DATA_PATHS = ("train_data_path", "data_path", *_PER_SPLIT)


def unread(draft: Draft) -> list[PrimusError]:
    """Errors for tokenizer parameters that Megatron would honour and tokenization by Primus does not."""
    if draft["mock_data"]:
        return []
    return [
        ConfigError(
            f"`{name}` is not read",
            where=str(draft.asked.leaves[name].origin),
            why="Primus tokenizes the data itself, with what `tokenizer_model` names",
            remedy="put it into the tokenizer's own files, or name data that is tokenized already (.bin and .idx)",
        )
        for name in TOKENIZER_DETAILS
        if draft.is_set(name) and draft[name] != draft.schema.parameters[name].default
    ]


def adjust_data(draft: Draft) -> None:
    """Megatron gets token ids: no paths, and no tokenizer of its own."""
    why = "Primus reads the text and tokenizes it once; Megatron gets the prepared index"
    for name in _DATA_PATHS:
        draft.adjust(name, None, why)
    mock = draft["mock_data"]
    why = "made-up tokens need no tokenizer" if mock else "Primus tokenizes; Megatron gets token ids"
    draft.adjust("tokenizer_type", "NullTokenizer", why)
    draft.adjust("tokenizer_model", None, why)


def adjust_evaluation(draft: Draft) -> None:
    """Evaluation is on where `eval_interval` or `eval_iters` asks for it."""
    asked = draft["eval_interval"] is not None or (draft.is_set("eval_iters") and draft["eval_iters"])
    if draft["eval_interval"] is None:
        draft.adjust("eval_interval", NEVER, "nobody set it: no evaluation between the first and the last iteration")
    if not asked or draft["eval_iters"] is None:
        draft.adjust("eval_iters", 0, "evaluation was not asked for: neither eval_interval nor eval_iters is set")
    _adjust_split(draft)


def _adjust_split(draft: Draft) -> None:
    """The shares of one data set, unless validation and test data have paths of their own."""
    if any(draft.asked.values.get(name) for name in _PER_SPLIT):
        draft.adjust("split", None, "validation or test data has a path of its own")
    elif draft["split"] is None and draft["eval_iters"]:
        draft.adjust("split", MEGATRON_SPLIT, "Megatron's own shares of training, validation and test")
    elif draft["split"] is None:
        draft.adjust("split", ALL_TRAINING, "all data is for training: evaluation was not asked for")
