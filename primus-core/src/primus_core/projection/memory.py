"""Bytes that live at one moment, by what they belong to."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field

from primus_core.records import frozen

Parts = dict[str, int]
"""Bytes by component of the model, or by one of the names below."""

INPUT = "passed on"
"""What one block or stage makes for the next."""
GRADIENTS = "gradients of activations"
WEIGHT_GRADIENTS = "gradients of weights"
GATHERED = "gathered weights"


@frozen(kw_only=True)
class Moment:
    """The most that lived at once."""

    bytes: int = 0
    at: str = ""
    """What ran then: ``layer: mlp, forward``."""
    parts: Mapping[str, int] = field(factory=dict)

    def beside(self, others: Mapping[str, int]) -> Moment:
        """The same with what lives all the while."""
        parts = plus(self.parts, others)
        return Moment(bytes=self.bytes + sum(others.values()), at=self.at, parts=parts)


def plus(first: Mapping[str, int], second: Mapping[str, int]) -> Parts:
    """Both, without what is nothing."""
    names = dict.fromkeys((*first, *second))
    return {name: size for name in names if (size := first.get(name, 0) + second.get(name, 0))}


def minus(first: Mapping[str, int], second: Mapping[str, int]) -> Parts:
    """The first without the second."""
    return plus(first, times(second, -1))


def times(parts: Mapping[str, int], count: int) -> Parts:
    """So many of it."""
    return {name: size * count for name, size in parts.items() if size and count}


def most(*moments: Moment) -> Moment:
    """The largest; the first of equals."""
    return max(moments, key=lambda moment: moment.bytes, default=Moment())


class Memory:
    """What lives, by name, while operators run one after the other."""

    def __init__(self) -> None:
        self.most = Moment()
        self._live: dict[str, tuple[str, int]] = {}
        self._total = 0

    def __contains__(self, name: str) -> bool:
        return name in self._live

    def names(self) -> list[str]:
        """Of all that lives."""
        return list(self._live)

    def add(self, name: str, part: str, size: int) -> None:
        """A tensor's storage is allocated."""
        self.drop(name)
        self._live[name] = (part, size)
        self._total += size

    def drop(self, name: str) -> None:
        """It is freed, if it was there."""
        self._total -= self._live.pop(name, ("", 0))[1]

    def mark(self, at: str) -> None:
        """Looks how much lives now."""
        if self._total > self.most.bytes:
            self.most = Moment(bytes=self._total, at=at, parts=self.parts())

    def parts(self) -> Parts:
        """All that lives, by part."""
        parts: Parts = {}
        for part, size in self._live.values():
            if size:
                parts[part] = parts.get(part, 0) + size
        return parts
