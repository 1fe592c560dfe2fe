"""Cases for the ranks that build Megatron's model, and how what they found differs from what projection says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from primus_backend_megatron import host
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape
from tests.megatron.truth.expected import rank_of


@frozen(kw_only=True)
class Case:
    """A model in a layout, and the ranks to look at."""

    name: str
    plan: RunPlan
    shape: ModelShape
    ranks: tuple[int, ...]

    def asked(self) -> dict[str, Any]:
        """What `tests.megatron.truth.building.measured` is given."""
        assert self.plan.translation
        native = dict(self.plan.translation.native)
        return {"native": native, "ranks": list(self.ranks), "world": self.plan.target.world_size}


def shape_of(plan: RunPlan) -> ModelShape:
    """The shape that the back end tells."""
    shape = host.model_shape(plan)
    assert shape is not None
    return shape


def differences(case: Case, found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each figure of each rank that is not the same, to the byte."""
    for rank, figures in zip(case.ranks, found, strict=True):
        wanted = rank_of(case.shape, rank)
        for name, value in figures.items():
            if value != wanted[name]:
                yield f"{case.name}, rank {rank}: {name} {_different(wanted[name], value)}"


def _different(wanted: Any, value: Any) -> str:
    if isinstance(value, Mapping):
        return str(sorted(set(wanted.items()) ^ set(value.items())))
    return f"{wanted}, and it is {value}"
