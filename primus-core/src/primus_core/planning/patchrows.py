"""A back end's patches as a table: what each row says, and the plan's patches that are made of the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from primus_core.experiment import Value
from primus_core.plan import PatchSpec
from primus_core.records import frozen

FINGERPRINTS = "patch_fingerprints.json"
"""The file of a back end's package with the known hashes of each target; `tools/fingerprints.py` writes it."""


class Values(Protocol):
    """The library's parameters as they will be: set by the experiment, or defaults."""

    def __getitem__(self, native: str) -> Value: ...


@frozen
class Need:
    """A condition on the library's parameters."""

    words: str
    """For people, after "needed where"."""
    met: Callable[[Values], bool]


@frozen
class Row:
    """One patch, less what can be derived."""

    id: str
    target: str
    replacement: str
    reason: str
    requires: str
    need: Need | None = None
    """None: every run needs it."""


def in_common(requires: str, patches: Iterable[tuple[str, str, str, str]], need: Need | None = None) -> tuple[Row, ...]:
    """Rows that have the version range and the need in common; of each, id, target, replacement and reason."""
    return tuple(Row(*patch, requires, need) for patch in patches)


def above_one(native: str) -> Need:
    """The parameter is a number of ranks, stages or the like, and there are several."""

    def met(values: Values) -> bool:
        value = values[native]
        return isinstance(value, int) and value > 1

    return Need(f"{native} > 1", met)


@cache
def _fingerprints(path: Path) -> Mapping[str, Sequence[str]]:
    """Part of a package, which does not change while it is loaded."""
    found: Mapping[str, Sequence[str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


@frozen
class Table:
    """Makes patches of rows."""

    known: Mapping[str, Sequence[str]]
    """Hashes of each target."""
    values: Values | None
    """What decides which rows are needed; None: all that any experiment may need."""

    @classmethod
    def of(cls, folder: Path, values: Values | None) -> Table:
        """With the fingerprints that lie in the folder of a back end's package."""
        return cls(_fingerprints(folder / FINGERPRINTS), values)

    def specs(self, rows: Iterable[Row]) -> list[PatchSpec]:
        """The patches of those rows that are needed."""
        return [self._spec(row) for row in rows if self._needs(row)]

    def _needs(self, row: Row) -> bool:
        return self.values is None or row.need is None or row.need.met(self.values)

    def _spec(self, row: Row) -> PatchSpec:
        return PatchSpec(
            id=row.id,
            target=row.target,
            replacement=row.replacement,
            reason=row.reason,
            requires=row.requires,
            fingerprint=tuple(self.known.get(row.target, ())),
            condition=row.need.words if row.need else "",
        )
