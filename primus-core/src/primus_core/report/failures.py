"""The rank that failed first in one screen: what, when, why, where, what to do; the others are counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from primus_core.log.records import one_line
from primus_core.outcome import RankReport, RunReport
from primus_core.plan import RunPlan
from primus_core.quantities import duration
from primus_core.report.diagnosis import exception_line, in_plain_words, raised
from primus_core.report.merge import in_consequence, noticed_by
from primus_core.report.traces import last_trace
from primus_core.rundir import RunDir
from primus_core.screens import problem_lines

_LINES = 8
_WIDTH = 200
_LONG = 400
_CHAIN = 3
"""Exceptions before the last one that are shown."""


def failure_lines(report: RunReport, plan: RunPlan) -> list[str]:
    """The screen of a run in which a rank failed."""
    first = next((rank for rank in report.ranks if rank.rank == report.first_failure), None)
    if first is None:
        return _vanished(report, plan)
    return [
        *_told_of(first, report, plan),
        *others(report, plan),
        f"  log: {logs_of(plan)}/rank-{first.rank}/debug.log",
    ]


def _told_of(rank: RankReport, report: RunReport, plan: RunPlan) -> list[str]:
    moment = told("in", _moment(rank))
    if report.launcher_signal and in_consequence(rank):
        return [_launcher_killed(report, plan), *moment]
    if rank.failure and rank.failure.problems:  # all is known: what the rank said last adds nothing
        return [*problem_lines(rank.failure.problems, who=f"rank {rank.rank} failed"), *moment]
    if known := report.diagnosis:
        lines = [f"error: rank {rank.rank} failed: {known.what}", *moment, *told("why", known.why)]
        return [*lines, *_source(rank), *told("try", known.remedy)]
    return [f"error: rank {rank.rank} failed: {in_plain_words(rank)[:_WIDTH]}", *moment, *_observed(rank)]


def _launcher_killed(report: RunReport, plan: RunPlan) -> str:
    return f"error: the launcher {plan.launcher!r} was killed by {report.launcher_signal}"


def _observed(rank: RankReport) -> list[str]:
    """What can be seen from outside of a failure that nobody explained."""
    failure = raised(rank)
    before = failure.chain[:_CHAIN] if failure else ()
    lines = [line for one in before for line in told("why", f"came from {exception_line(one.type, one.text)}")]
    said = [line for line in rank.last_lines if not _repeats(line, rank)]
    return [*lines, *_source(rank), *quoted_lines("its last lines", said)]


def _repeats(line: str, rank: RankReport) -> bool:
    """Whether a line of the log is the parent's word on the end, which the screen has in others."""
    failure = rank.failure
    ends = (f"killed by {rank.signal}", f"ended with exit code {rank.exit_code}")
    return line.startswith(ends) or (failure is not None and line == exception_line(failure.type, failure.text))


def _source(rank: RankReport) -> list[str]:
    return told("at", rank.failure.at) if rank.failure else []


def _moment(rank: RankReport) -> str:
    where = rank.phase + (f", iteration {rank.iteration}" if rank.iteration is not None else "")
    return f"{where}, on {rank.host}, {duration(rank.ended - rank.started)} after its start"


def _vanished(report: RunReport, plan: RunPlan) -> list[str]:
    """Ranks whose parents could write no report, which the others noticed."""
    gone = missing(report, plan)
    who = f"rank{'s' * (len(gone) > 1)} {rank_numbers(gone)} vanished without a report"
    if report.launcher_signal:  # which ended them before they could write
        lines = [_launcher_killed(report, plan), *told("and", who)]
        return [*lines, *others(report, plan), f"  log: {logs_of(plan)}/rank-{gone[0]}/debug.log"]
    lines = [f"error: {who}", *_last_seen(gone[0], plan)]
    witness = noticed_by(report.ranks)
    if witness is not None:
        lines += told("why", f"rank {witness.rank} noticed: {in_plain_words(witness)}")
        lines += told("in", _moment(witness))
    lines += told(
        "try", "look whether that host is up and who ended the processes there (its kernel log, its scheduler)"
    )
    shown = gone[0] if last_trace(plan, gone[0]) else (witness.rank if witness else gone[0])
    return [*lines, *others(report, plan), f"  log: {logs_of(plan)}/rank-{shown}/debug.log"]


def _last_seen(rank: int, plan: RunPlan) -> list[str]:
    trace = last_trace(plan, rank)
    return told("at", f"{trace.host}, last heard of at {trace.time}") if trace else []


def others(report: RunReport, plan: RunPlan) -> list[str]:
    """The ranks beside the first, counted: their errors are consequences and would hide the cause."""
    failed = [rank for rank in report.ranks if rank.exit_code and rank.rank != report.first_failure]
    first = next((rank for rank in report.ranks if rank.rank == report.first_failure), None)
    same = [rank for rank in failed if first is not None and _is_alike(rank, first)]
    gone = missing(report, plan)
    said = []
    if same:
        said.append(f"{_counted(len(same))} failed in the same way")
    if len(failed) > len(same):
        said.append(f"{_counted(len(failed) - len(same))} ended in consequence")
    if gone and report.ranks and report.first_failure not in gone:
        said.append(f"no report from rank{'s' * (len(gone) > 1)} {rank_numbers(gone)}")
    return told("and", "; ".join(said)) if said else []


def _counted(count: int) -> str:
    return f"{count} other rank{'s' * (count > 1)}"


def _is_alike(rank: RankReport, first: RankReport) -> bool:
    """Whether a rank failed by itself, of the same as the first: numbers, such as its own, may differ."""
    mine, other = raised(rank), raised(first)
    if mine is None or other is None or in_consequence(rank):
        return False
    return mine.type == other.type and _words(mine.text) == _words(other.text)


def _words(text: str) -> str:
    return re.sub(r"\d+", "N", text.strip().partition("\n")[0])


def missing(report: RunReport, plan: RunPlan) -> list[int]:
    """Ranks without a report."""
    return sorted(set(range(plan.target.world_size)) - {rank.rank for rank in report.ranks})


def rank_numbers(ranks: Iterable[int]) -> str:
    """``0, 4-7, 12``; of many parts the first eight."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in spans]
    return ", ".join(parts[:_LINES]) + (", ..." if len(parts) > _LINES else "")


def told(name: str, text: str) -> list[str]:
    """``  why: text``, for a text that is there."""
    line = one_line(text)
    return [f"  {f'{name}:':<4} {line if len(line) <= _LONG else f'{line[:_LONG]}...'}"] if text else []


def quoted_lines(title: str, lines: Iterable[str]) -> list[str]:
    """The last of somebody's lines, under a title."""
    shown = [one_line(line)[:_WIDTH] for line in lines if line.strip()][-_LINES:]
    return [f"  {title}:", *(f"    {line}" for line in shown)] if shown else []


def logs_of(plan: RunPlan) -> Path:
    """The folder of its ranks' logs."""
    return RunDir(Path(plan.run_dir)).logs(plan.module or plan.task.kind)
