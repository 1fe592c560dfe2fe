"""How what a library's own model has differs from what projection says, rank by rank and to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape

Figures = Mapping[str, Any]
Params = Mapping[str, Value]
Expected = Callable[[ModelShape, int], Figures]
"""What projection says of a rank."""


@frozen(kw_only=True)
class Case:
    """A model in a layout, and the ranks to look at."""

    name: str
    plan: RunPlan
    shape: ModelShape
    ranks: tuple[int, ...]

    def asked(self) -> dict[str, Any]:
        """What a back end's `building.measured` is given."""
        assert self.plan.translation
        native = dict(self.plan.translation.native)
        return {"native": native, "ranks": list(self.ranks), "world": self.plan.target.world_size}


def differing(case: Case, found: Sequence[Figures], expected: Expected) -> Iterator[str]:
    """A line for each figure of each rank that is not the same, to the byte."""
    for rank, figures in zip(case.ranks, found, strict=True):
        wanted = expected(case.shape, rank)
        for name, value in figures.items():
            if value != wanted[name]:
                yield f"{case.name}, rank {rank}: {name} {_different(wanted[name], value)}"


def _different(wanted: Any, value: Any) -> str:
    if isinstance(value, Mapping):
        return str(sorted(set(wanted.items()) ^ set(value.items())))
    return f"{wanted}, and it is {value}"


def chosen(
    small: Mapping[str, Params], presets: Iterable[tuple[str, Params]], names: Sequence[str]
) -> Iterator[tuple[str, Params, bool]]:
    """The models of these names, or all; whether each is a preset, of which some ranks are looked at alone."""
    for name, params in small.items():
        if not names or name in names:
            yield name, params, False
    for name, params in presets:
        if not names or name in names:
            yield name, params, True


def unbuilt(model: str, reason: str) -> dict[str, Any]:
    """The row of a model that the library cannot build."""
    return {"model": model, "layout": "", "projected": None, "measured": None, "note": reason}


def row_of(model: str, case: Case, found: Sequence[Figures], expected: Expected) -> dict[str, Any]:
    """One comparison for `make accuracy`; bytes are those of all ranks that were looked at."""
    figures = [name for name, value in found[0].items() if isinstance(value, int)]
    wanted = [expected(case.shape, rank) for rank in case.ranks]
    return {
        "model": model,
        "layout": case.name,
        "ranks": len(found),
        "figures": figures,
        "projected": sum(rank[name] for rank in wanted for name in figures),
        "measured": sum(rank[name] for rank in found for name in figures),
        "differences": list(differing(case, found, expected)),
    }
