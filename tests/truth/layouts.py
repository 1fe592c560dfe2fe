"""Layouts that models are divided by."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten

from attrs import frozen

from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape

_MOST = 8
"""Layouts of a large model, about."""
_LARGE = 2048
"""Ranks of a layout that is compared wherever it is legal."""
_ORIGIN = re.compile(r" \(\S+:\d+\)")


@frozen
class Layout:
    """So many ranks, and how they divide the model."""

    ranks: int
    params: Mapping[str, Value]

    @property
    def staged(self) -> bool:
        """The model is cut into stages."""
        return "pipeline_model_parallel_size" in self.params

    @property
    def name(self) -> str:
        """In the words of the parameters."""
        words = [f"{name.rpartition('.')[2]} {value}" for name, value in self.params.items()]
        return ", ".join([f"{self.ranks} ranks", *words])


Legal = Sequence[tuple[Layout, RunPlan]]


def spread(legal: Legal) -> Legal:
    """Some that differ, and the largest."""
    step = max(1, round(len(legal) / _MOST))
    return [*legal[::step], *(one for one in legal if one[0].ranks >= _LARGE and one not in legal[::step])]


def refusal(plan: Callable[[], RunPlan], check: Callable[[RunPlan, Where], Sequence[Finding]]) -> str:
    """Why a back end builds no model of a plan: what it says of it, without places in files.

    Args:
        check: the back end's `preflight_check`.
    """
    try:
        told = [one.evidence or one.summary for one in check(plan(), Where.SUBMIT)]
    except PrimusError as error:
        told = [one.what for one in error.problems]
    lines = [line for one in told for line in one.splitlines()]
    return shorten(_ORIGIN.sub("", "; ".join(lines)), 240)


def stages_of(shape: ModelShape) -> list[int]:
    """Pipeline ranks to look at: at most five, the first and the last among them."""
    count = shape.group("pipeline")
    return sorted({0, 1, count // 2, count - 2, count - 1} & set(range(count)))
