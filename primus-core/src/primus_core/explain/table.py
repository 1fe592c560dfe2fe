"""A whole experiment in the words of one back end: what becomes of each parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from attrs import frozen

from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.parameters import owner_of
from primus_core.pipeline import Judged
from primus_core.plan import Translation
from primus_core.planning.settings import core_schema

Outcome = Literal["mapped", "adjusted", "added", "unused", "core", "refused"]
"""The library gets it as it is; gets another value; gets a value that nobody set; does not get it; Primus reads it;
the experiment cannot be trained with it."""


@frozen(kw_only=True)
class Row:
    """One parameter."""

    outcome: Outcome
    path: str = ""
    """The name in the experiment; empty where nobody set it."""
    origin: str = ""
    """``file:line``."""
    asked: Value = None
    native: str = ""
    """The library's name; empty where it does not reach the library."""
    used: Value = None
    why: str = ""


@frozen(kw_only=True)
class Table:
    """The translation of an experiment."""

    framework: str
    library: str
    judged_for: str
    rows: tuple[Row, ...]
    """In the order of the library's names; what does not reach it comes last."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is refused."""
        return all(row.outcome != "refused" for row in self.rows)


def table(judged: Judged, library: str, judged_for: str) -> Table:
    """The rows of an experiment that was judged."""
    found = [*_reaching(judged), *_core(judged), *_refused(judged)]
    return Table(
        framework=judged.module.framework,
        library=library,
        judged_for=judged_for,
        rows=tuple(sorted(found, key=lambda row: (not row.native, row.native, row.path))),
    )


def _reaching(judged: Judged) -> Iterator[Row]:
    translation = judged.translation
    if translation is None:
        return
    params = judged.module.params
    for row in translation.mapping:
        origin = judged.module.origin(row.path)
        yield Row(outcome="mapped", path=row.path, origin=origin, asked=row.value, native=row.native, used=row.value)
    for change in translation.adjusted:
        is_set = change.path in params
        yield Row(
            outcome="adjusted" if is_set else "added",
            path=change.path if is_set else "",
            origin=judged.module.origin(change.path) if is_set else "",
            asked=change.asked,
            native=change.native,
            used=change.used,
            why=change.why,
        )
    yield from _unused(judged, translation)


def _unused(judged: Judged, translation: Translation) -> Iterator[Row]:
    for row in translation.unused:
        leaf = judged.module.params.get(row.path)
        yield Row(
            outcome="unused",
            path=row.path,
            origin=str(leaf.origin) if leaf else "",
            asked=leaf.value if leaf else None,
            why=row.why,
        )


def _core(judged: Judged) -> Iterator[Row]:
    for path, leaf in judged.module.params.items():
        if owner_of(path, core_schema().parameters):
            origin = str(leaf.origin)
            yield Row(outcome="core", path=path, origin=origin, asked=leaf.value, why="Primus itself reads it")


def _refused(judged: Judged) -> Iterator[Row]:
    """What keeps the experiment from being trained, each with the parameter that it names first."""
    for error in judged.failures:
        path = _named(error)
        leaf = judged.module.params.get(path)
        why = "; ".join(part.strip() for part in (error.what, error.why, error.remedy) if part)
        yield Row(
            outcome="refused",
            path=path if leaf else "",
            origin=str(leaf.origin) if leaf else error.where,
            asked=leaf.value if leaf else None,
            why=" ".join(why.split()),
        )


def _named(error: PrimusError) -> str:
    return error.what.partition("`")[2].partition("`")[0]
