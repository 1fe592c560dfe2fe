"""Which part of a file is for training, validation and test, by the rule of Megatron's ``split``."""

from __future__ import annotations

import itertools
import re

from primus_core.errors import ConfigError

SPLITS = ("train", "valid", "test")
DEFAULT_SPLIT = "969,30,1"
"""Megatron's own shares."""

Span = tuple[float, float]
"""A part of a file's sequences: from and to, as fractions of their number."""
WHOLE: Span = (0.0, 1.0)

_NUMBER = re.compile(r"[.0-9]+")


def split_spans(split: str) -> tuple[Span | None, ...]:
    """The spans of training, validation and test data; None where the share is 0.

    Args:
        split: three shares such as ``969,30,1``, which need not add up to anything; those left out are 0.

    Raises:
        ConfigError: there are no such shares in the text.
    """
    shares = _shares(split)
    total = sum(shares)
    ends = list(itertools.accumulate((share / total for share in shares), initial=0.0))
    return tuple((begin, end) if begin < end else None for begin, end in itertools.pairwise(ends))


def _shares(split: str) -> list[float]:
    try:
        shares = [float(number) for number in _NUMBER.findall(split)]
    except ValueError:
        shares = []
    if not shares or len(shares) > len(SPLITS) or not sum(shares):
        raise ConfigError(
            f"split cannot be {split!r}",
            why="it is the shares of training, validation and test data",
            remedy=f'for example "{DEFAULT_SPLIT}"',
        )
    return shares + [0.0] * (len(SPLITS) - len(shares))


def span_range(span: Span, count: int) -> tuple[int, int]:
    """First sequence of a span, and one past the last, of ``count``: ends are rounded, halves to the even number."""
    return round(span[0] * count), round(span[1] * count)
