"""Cases for the ranks that build TorchTitan's model, and how what they found differs from what projection says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from primus_backend_torchtitan import host
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape
from tests.torchtitan.truth.expected import rank_of
from tests.truth import comparing
from tests.truth.comparing import Figures, differing


@frozen(kw_only=True)
class Case(comparing.Case):
    """A model in a layout, and the ranks to look at."""

    works: bool = False
    """The optimizer makes a step, and FSDP gathers and reduces."""

    def asked(self) -> dict[str, Any]:
        """What `tests.torchtitan.truth.building.measured` is given."""
        return {**super().asked(), "version": self.plan.target.library_version, "works": self.works}


def shape_of(plan: RunPlan) -> ModelShape:
    """The shape that the back end tells."""
    shape = host.model_shape(plan)
    assert shape is not None
    return shape


def differences(case: Case, found: Sequence[Figures]) -> Iterator[str]:
    """A line for each figure of each rank that is not the same, to the byte."""
    return differing(case, found, rank_of)
