"""What two runs have in common, and by how much they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from attrs import frozen

from primus_core.compare.measurements import Measured
from primus_core.compare.runs import Run
from primus_core.errors import ConfigError
from primus_core.explain.differences import Difference
from primus_core.plan import Layout

_WARM_UP = 5
"""Iterations that a run may take until it is as fast as it gets; of few iterations, half."""


@frozen(kw_only=True)
class Span:
    """Iterations from the first to the last, both included; there may be gaps."""

    first: int
    last: int
    count: int

    @classmethod
    def of(cls, iterations: Sequence[int]) -> Span:
        return cls(first=iterations[0], last=iterations[-1], count=len(iterations))


@frozen(kw_only=True)
class Facts:
    """One run."""

    path: str
    run_id: str
    experiment: str
    """``work_group/user_name/exp_name``."""
    framework: str
    library_version: str
    distributions: Mapping[str, str]
    """Versions of Primus' own distributions."""
    accelerator: str
    nodes: int
    ranks: int
    launcher: str
    layout: Layout
    data_parallel: int
    exit_code: int | None
    """None: there is no report."""
    first_failure: int | None
    """The rank that failed first."""
    wall_seconds: float | None
    """From the start of the first rank to the end of the last; of this run alone, whatever it continues."""
    train_iters: int | None
    iterations: Span
    continues: tuple[str, ...]
    metrics_rank: int
    damaged_lines: tuple[int, ...]
    metrics_file: str


@frozen(kw_only=True)
class Pair:
    """One figure of both runs."""

    a: float | None
    b: float | None
    relative: float | None
    """``(b - a) / |a|``; None where that is no number."""
    iteration: int | None = None
    """None: it is of several iterations."""

    @classmethod
    def of(cls, a: float | None, b: float | None, iteration: int | None = None) -> Pair:
        return cls(a=a, b=b, relative=relative(a, b), iteration=iteration)


@frozen(kw_only=True)
class Point:
    """One figure of one run."""

    iteration: int
    value: float


@frozen(kw_only=True)
class Agreement:
    """How closely a figure of each iteration agrees, on the iterations where both runs have it."""

    first: Pair
    last: Pair
    largest: Pair | None
    """Where the relative difference is largest; None where no iteration has one."""
    last_a: Point
    last_b: Point
    """The last of each run, whether the other has it or not."""
    not_finite: tuple[int, ...]
    """Iterations where a value of either run is not finite: they have no relative difference."""


@frozen(kw_only=True)
class Speed:
    """Medians over the common iterations without the first ones; units are those of `primus_core.log.metrics`."""

    over: Span
    tokens_per_second: Pair
    step_seconds: Pair
    tflops: Pair
    mfu: Pair


@frozen(kw_only=True)
class Comparison:
    """Two runs side by side."""

    a: Facts
    b: Facts
    differences: tuple[Difference, ...]
    """Of the experiments, by meaning."""
    defaults_known: bool
    """False: a back end is not installed, so that what is set to its default counts as set."""
    common: Span
    loss: Agreement
    grad_norm: Agreement | None
    """None where a run has none."""
    speed: Speed
    peak_memory_bytes: Pair


def compared(
    runs: tuple[Run, Run],
    measured: tuple[Measured, Measured],
    differences: tuple[Difference, ...],
    *,
    defaults_known: bool,
) -> Comparison:
    """Compare two runs on the iterations that both have.

    Raises:
        ConfigError: there is no such iteration.
    """
    a, b = map(_facts, runs, measured)
    loss = _agreement(measured, "loss")
    common = [iteration for iteration in measured[0].rows if iteration in measured[1].rows]
    if loss is None:
        raise ConfigError(
            "the runs have no iteration in common",
            why=f"{a.path}: {_said(a.iterations)}\n{b.path}: {_said(b.iterations)}",
            remedy="compare runs that overlap",
        )
    return Comparison(
        a=a,
        b=b,
        differences=differences,
        defaults_known=defaults_known,
        common=Span.of(common),
        loss=loss,
        grad_norm=_agreement(measured, "grad_norm"),
        speed=_speed(measured, common),
        peak_memory_bytes=Pair.of(measured[0].peak_memory_bytes, measured[1].peak_memory_bytes),
    )


def relative(a: float | None, b: float | None) -> float | None:
    """``(b - a) / |a|``, 0 for equal values; None where it is no number."""
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return None
    if a == b:
        return 0.0
    return (b - a) / abs(a) if a else None


def curve(measured: Measured, name: str) -> dict[int, float]:
    """A figure of each iteration that has it."""
    return dict(_values(measured, name))


def _values(measured: Measured, name: str) -> Iterator[tuple[int, float]]:
    for iteration, row in measured.rows.items():
        value = getattr(row, name)
        if value is not None:
            yield iteration, value


def _facts(run: Run, measured: Measured) -> Facts:
    plan, report = run.plan, run.report
    layout = plan.translation.layout if plan.translation else Layout()
    rows = list(measured.rows.values())
    return Facts(
        path=str(run.rundir.path),
        run_id=plan.run_id,
        experiment="/".join((run.experiment.work_group, run.experiment.user_name, run.experiment.exp_name)),
        framework=run.module.framework,
        library_version=plan.target.library_version,
        distributions=plan.distributions,
        accelerator=plan.target.accelerator,
        nodes=plan.target.nodes,
        ranks=plan.target.world_size,
        launcher=plan.launcher,
        layout=layout,
        data_parallel=layout.data_parallel(plan.target.world_size),
        exit_code=report.exit_code if report else None,
        first_failure=report.first_failure if report else None,
        wall_seconds=report.ended - report.started if report else None,
        train_iters=int(rows[-1].train_iters) if rows[-1].train_iters is not None else None,
        iterations=Span.of(list(measured.rows)),
        continues=measured.continues,
        metrics_rank=measured.rank,
        damaged_lines=measured.damaged,
        metrics_file=str(measured.file),
    )


def _agreement(measured: tuple[Measured, Measured], name: str) -> Agreement | None:
    a, b = (curve(one, name) for one in measured)
    pairs = [Pair.of(value, b[iteration], iteration) for iteration, value in a.items() if iteration in b]
    if not pairs:
        return None
    finite = [(abs(pair.relative), pair) for pair in pairs if pair.relative is not None]
    return Agreement(
        first=pairs[0],
        last=pairs[-1],
        largest=max(finite, key=lambda one: one[0])[1] if finite else None,
        last_a=Point(iteration=max(a), value=a[max(a)]),
        last_b=Point(iteration=max(b), value=b[max(b)]),
        not_finite=tuple(pair.iteration for pair in pairs if pair.iteration is not None and not _is_finite(pair)),
    )


def _is_finite(pair: Pair) -> bool:
    return all(value is not None and math.isfinite(value) for value in (pair.a, pair.b))


def _speed(measured: tuple[Measured, Measured], common: Sequence[int]) -> Speed:
    over = common[min(_WARM_UP, len(common) // 2) :]
    a, b = measured
    names = ("tokens_per_second", "step_seconds", "tflops", "mfu")
    return Speed(
        over=Span.of(over), **{name: Pair.of(_median(a, name, over), _median(b, name, over)) for name in names}
    )


def _median(measured: Measured, name: str, iterations: Iterable[int]) -> float | None:
    values = [value for n in iterations if (value := getattr(measured.rows[n], name)) is not None]
    return median(values) if values else None


def _said(span: Span) -> str:
    return f"iterations {span.first} to {span.last}"
