"""The rows of a data file by name. An experiment names few of them: each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from primus_core.experiment import Value

Row = Mapping[str, Value]
Made = TypeVar("Made")


class Rows(Mapping[str, Made], Generic[Made]):
    """What ``make(name, row)`` makes of each row."""

    def __init__(self, raw: Mapping[str, Row], make: Callable[[str, Row], Made]) -> None:
        self.raw = raw
        """As the file has them."""
        self._make = make
        self._made: dict[str, Made] = {}

    def __getitem__(self, name: str) -> Made:
        if name not in self._made:
            self._made[name] = self._make(name, self.raw[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)
