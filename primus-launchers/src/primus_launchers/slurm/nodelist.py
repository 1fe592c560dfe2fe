"""Slurm's short form of many host names: ``gpu[01-03,07]``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from primus_core.errors import ConfigError

_MOST = 65536
"""Names that Slurm makes of one range."""
_WORD = re.compile(r"(?:[^][,\s]|\[[^][]*\])+")
_BRACKETS = re.compile(r"\[([^][]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def expand(text: str) -> tuple[str, ...]:
    """The host names, in their order, as ``scontrol show hostnames`` prints them.

    Raises:
        ConfigError: a bracket or a list of numbers is wrong.
    """
    words = _WORD.findall(text)
    if re.sub(r"[,\s]", "", _WORD.sub("", text)):
        raise _wrong(text)  # a bracket that is left over
    return tuple(name for word in words for name in _names(word, text))


def _names(word: str, text: str) -> Iterator[str]:
    """The last numbers run fastest, and of those before them the first: so Slurm has it."""
    between = _BRACKETS.split(word)[::2]
    numbers = [_numbers(body, text) for body in _BRACKETS.findall(word)]
    if not numbers:
        yield word
        return
    if between[-1]:
        raise _wrong(text)  # a name ends with its numbers, or has none
    for chosen in itertools.product(*reversed(numbers[:-1])):
        prefix = _joined(between, chosen[::-1])
        yield from (prefix + number for number in numbers[-1])


def _joined(between: Sequence[str], numbers: Sequence[str]) -> str:
    return "".join(itertools.chain(*itertools.zip_longest(between[:-1], numbers, fillvalue="")))


def _numbers(body: str, text: str) -> tuple[str, ...]:
    """``01-03,07``: each number as wide as the first of its range."""
    found: list[str] = []
    for part in body.split(","):
        numbers = _RANGE.fullmatch(part)
        if numbers is None:
            raise _wrong(text)
        low, high = numbers[1], numbers[2] or numbers[1]
        if int(high) < int(low) or int(high) - int(low) >= _MOST:
            raise _wrong(text)
        found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
    return tuple(found)


def _wrong(text: str) -> ConfigError:
    return ConfigError(f"{text!r} is no list of hosts", remedy="write it as Slurm does: gpu[01-03,07],login1")
