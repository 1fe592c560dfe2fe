"""Training steps whose memory is projected and measured: which ones, and how far the two may be apart."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from primus_core.errors import PrimusError
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan
from primus_core.projection import iteration
from primus_core.projection import optimizing as optimizer
from primus_core.projection.iteration import WORKSPACE
from primus_core.projection.places import Place
from primus_core.projection.states import per_rank
from primus_core.shape import ModelShape

OPTIMIZER = optimizer.OPTIMIZER


class Step(Protocol):
    """A model on so many ranks, and the rank to look at."""

    @property
    def name(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def fused(self) -> bool: ...

    def plan(self, workspace: str = "/workspace") -> RunPlan:
        """As `primus run` makes it."""

    def shape(self) -> ModelShape:
        """What the back end tells."""


Row = Mapping[str, Any]
Chosen = TypeVar("Chosen", bound=Step)
Ranks = TypeVar("Ranks")


def drawn(
    seed: int,
    count: int,
    draw: Callable[[Random, int], Chosen],
    check: Callable[[RunPlan, Where], Sequence[Finding]],
) -> Iterator[Chosen]:
    """Cases that the back end does not refuse.

    Args:
        draw: makes one case; its second argument is how many were found.
        check: the back end's `preflight_check`.
    """
    choose, found = Random(seed), 0
    while found < count:
        case = draw(choose, found)
        try:
            legal = not check(case.plan(), Where.SUBMIT)
        except PrimusError:
            continue
        if legal:
            found += 1
            yield case


def problem(projected: int, measured: int) -> str:
    """Empty where a projection is at most 2 % above what was measured, and at most 1 % below."""
    error = projected / measured - 1
    return "" if -0.01 <= error <= 0.02 else f"{projected} bytes are projected, {measured} measured: {error:+.2%}"


def optimizing(shape: ModelShape, stage: int, place: Place) -> int:
    """Bytes that are projected to live at most on a rank while its optimizer works, all included."""
    static, workspace = per_rank(shape, stage, place), iteration.peak(shape, stage).parts.get(WORKSPACE, 0)
    return static.total + optimizer.peak(shape, stage, static, workspace, place).bytes


def row_of(case: Step, projected: int, measured: int | None, note: str = "", *, what: str = "") -> Row:
    """One comparison for `make accuracy`, in bytes.

    Args:
        note: why there is nothing to compare.
        what: is compared, where it is not the whole forward and backward pass.
    """
    row = {
        "model": f"{case.name}: {what}" if what else case.name,
        "layout": f"rank {case.rank} of {case.ranks}, {'fused' if case.fused else 'local'} kernels",
        "projected": projected,
        "measured": measured,
    }
    return {**row, "note": note} if note else row


def named(cases: Sequence[Chosen], names: Sequence[str]) -> list[Chosen]:
    """Those of these names, each of which must be there."""
    found = [case for case in cases if case.name in names]
    assert len(found) == len(names)
    return found


def compared(
    cases: Iterable[Chosen],
    ranks: AbstractContextManager[Ranks],
    compare: Callable[[Ranks, Path, Sequence[Chosen]], Iterable[Row]],
) -> Iterator[Row]:
    """The rows of cases, each run by itself on ranks that are started once."""
    with tempfile.TemporaryDirectory() as folder, ranks as started:
        for number, case in enumerate(cases):
            yield from compare(started, Path(folder) / str(number), [case])


def wrong(rows: Iterable[Row]) -> list[str]:
    """A line for each row that is beyond what is allowed, or has nothing to compare."""
    told = []
    for row in rows:
        beyond = problem(row["projected"], row["measured"]) if row["measured"] else row["note"]
        told += [f"{row['model']}: {beyond}"] if beyond else []
    return told


def written(rows: Iterable[Row]) -> int:
    """Write a line for each; 1 where one is beyond what is allowed."""
    off = 0
    for row in rows:
        print(json.dumps(row), flush=True)
        judged = row["measured"] and not row.get("note")
        off += bool(judged and problem(row["projected"], row["measured"]))
    return int(off > 0)
