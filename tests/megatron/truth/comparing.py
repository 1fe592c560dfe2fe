"""Cases for the ranks that build Megatron's model, and how what they found differs from what projection says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from primus_backend_megatron import host
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape
from tests.megatron.truth.expected import rank_of
from tests.truth.comparing import Case, Figures, differing

__all__ = ["Case", "differences", "shape_of"]


def shape_of(plan: RunPlan) -> ModelShape:
    """The shape that the back end tells."""
    shape = host.model_shape(plan)
    assert shape is not None
    return shape


def differences(case: Case, found: Sequence[Figures]) -> Iterator[str]:
    """A line for each figure of each rank that is not the same, to the byte."""
    return differing(case, found, rank_of)
