"""How one data set is divided among training, validation and test."""

from __future__ import annotations

import re

from primus_backend_megatron.host.asked import Asked
from primus_core.errors import ConfigError

MEGATRON_SPLIT = "969, 30, 1"
"""Megatron's own shares."""
ALL_TRAINING = "100, 0, 0"

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")


def parse_split(text: str) -> tuple[float, float, float]:
    """The shares of training, validation and test as Megatron reads them, before they are made to add up to 1.

    A share that is left out is 0.

    Raises:
        ValueError: says what is wrong with the text.
    """
    words = re.split(r"\s*[,/]\s*|\s+", text.strip())
    wrong = [word for word in words if not _NUMBER.fullmatch(word)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no number of 0 or more")
    if len(words) > 3:
        raise ValueError(f"{len(words)} shares of three splits")
    train, valid, test = (*map(float, words), 0.0, 0.0)[:3]
    if train == 0:
        raise ValueError("nothing is left for training")
    return train, valid, test


def wrong_split(asked: Asked) -> list[ConfigError]:
    """What is wrong with a `split` that was set."""
    text = asked.values.get("split")
    if not isinstance(text, str):
        return []
    try:
        parse_split(text)
    except ValueError as error:
        return [
            ConfigError(
                f"`split` cannot be {text!r}",
                where=str(asked.leaves["split"].origin),
                why=str(error),
                remedy=f'write the shares of training, validation and test, such as "{MEGATRON_SPLIT}"',
            )
        ]
    return []
