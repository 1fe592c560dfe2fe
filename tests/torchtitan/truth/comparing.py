"""Cases for the ranks that build TorchTitan's model, and how what they found differs from what projection says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from primus_backend_torchtitan import host
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape
from tests.torchtitan.truth.expected import rank_of


@frozen(kw_only=True)
class Case:
    """A model in a layout, and the ranks to look at."""

    name: str
    plan: RunPlan
    shape: ModelShape
    ranks: tuple[int, ...]
    works: bool = False
    """The optimizer makes a step, and FSDP gathers and reduces."""

    def asked(self) -> dict[str, Any]:
        """What `tests.torchtitan.truth.building.measured` is given."""
        assert self.plan.translation
        target = self.plan.target
        shared = {"version": target.library_version, "world": target.world_size, "works": self.works}
        return {"native": dict(self.plan.translation.native), "ranks": list(self.ranks), **shared}


def shape_of(plan: RunPlan) -> ModelShape:
    """The shape that the back end tells."""
    shape = host.model_shape(plan)
    assert shape is not None
    return shape


def differences(case: Case, found: list[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each figure of each rank that is not the same, to the byte."""
    for rank, figures in zip(case.ranks, found, strict=True):
        wanted = rank_of(case.shape, rank)
        for name, value in figures.items():
            if value != wanted[name]:
                yield f"{case.name}, rank {rank}: {name} {_different(wanted[name], value)}"


def _different(wanted: Any, value: Any) -> str:
    if isinstance(value, Mapping):
        return str(set(wanted.items()) ^ set(value.items()))
    return f"{wanted}, and it is {value}"
