"""A run's end in one screen: the rank that failed first, or what was reached."""

from __future__ import annotations

import signal
from pathlib import Path

from primus_core.errors import ExitCode
from primus_core.log.console import topic_line
from primus_core.log.records import one_line
from primus_core.outcome import RankReport, RunReport
from primus_core.plan import RunPlan
from primus_core.quantities import duration, memory_size
from primus_core.report.launcher import launcher_lines
from primus_core.report.merge import read
from primus_core.rundir import RunDir
from primus_core.screens import problem_lines

_INTERRUPTED = 128
"""A run that was told to end by a signal has 128 and the signal's number as its exit code, as shells have it."""
_LINES = 8
_WIDTH = 200
_SIGNALS = {
    "SIGKILL": "killed by SIGKILL: somebody ended it, or the kernel did because memory ran out",
    "SIGSEGV": "crashed by SIGSEGV: native code touched memory that is not its own",
    "SIGABRT": "aborted itself (SIGABRT): native code found a fault it could not handle",
    "SIGBUS": "crashed by SIGBUS: often a full /dev/shm or a truncated file",
    "SIGTERM": "ended by SIGTERM",
    "SIGINT": "ended by SIGINT",
}


def summary(plan: RunPlan) -> str:
    """The screen of a run that has ended, from its ``report.json``."""
    report = read(RunDir(Path(plan.run_dir)))
    return screen(report, plan) if report else f"run {plan.run_id} left no report in {plan.run_dir}"


def screen(report: RunReport, plan: RunPlan) -> str:
    """Several lines, without a newline at the end."""
    if report.exit_code == ExitCode.OK:
        return "\n".join(_success(report, plan))
    if report.exit_code > _INTERRUPTED:
        return "\n".join(_interrupted(report, plan))
    first = next((rank for rank in report.ranks if rank.rank == report.first_failure), None)
    if first is not None:
        return "\n".join(_failure(report, plan, first))
    return "\n".join(_no_report(report, plan))


def _success(report: RunReport, plan: RunPlan) -> list[str]:
    reached = [
        f"iteration {report.result['iteration']}" if report.result.get("iteration") is not None else "",
        f"loss {_figure(report.result['loss'])}" if report.result.get("loss") is not None else "",
        duration(report.ended - report.started),
    ]
    lines = [topic_line("done", ", ".join(filter(None, reached))), topic_line("logs", _logs(plan))]
    checkpoint = report.result.get("checkpoint")
    return [*lines, topic_line("checkpoint", str(checkpoint))] if checkpoint else lines


def _interrupted(report: RunReport, plan: RunPlan) -> list[str]:
    reached = max((rank.iteration for rank in report.ranks if rank.iteration is not None), default=None)
    where = "before the first iteration" if reached is None else f"after iteration {reached}"
    name = signal.Signals(report.exit_code - _INTERRUPTED).name
    return [topic_line("interrupted", f"{where}, by {name}"), topic_line("logs", _logs(plan))]


def _failure(report: RunReport, plan: RunPlan, rank: RankReport) -> list[str]:
    if report.launcher_signal and rank.signalled_first:
        lines = [
            f"error: the launcher {plan.launcher!r} was killed by {report.launcher_signal}",
            f"  at:  {_moment(rank)}",
        ]
    elif rank.failure and rank.failure.problems:  # all is known: what the rank said last adds nothing
        lines = [*problem_lines(rank.failure.problems, who=f"rank {rank.rank} failed"), f"  in:  {_moment(rank)}"]
    else:
        lines = _observed(rank)
    return [*lines, *_others(report, plan), f"  log: {_logs(plan)}/rank-{rank.rank}/debug.log"]


def _observed(rank: RankReport) -> list[str]:
    """A failure that nobody explained: what can be seen from outside."""
    lines = [f"error: rank {rank.rank} failed: {_cause(rank)}", f"  at:  {_moment(rank)}"]
    if rank.signal == "SIGKILL" and rank.peak_memory_bytes:
        lines.append(f"  why: it had used up to {memory_size(rank.peak_memory_bytes)} of memory")
    return lines + _quoted("its last lines", rank.last_lines)


def _moment(rank: RankReport) -> str:
    where = rank.phase + (f", iteration {rank.iteration}" if rank.iteration is not None else "")
    return f"{where}, on {rank.host}, {duration(rank.ended - rank.started)} after its start"


def _no_report(report: RunReport, plan: RunPlan) -> list[str]:
    """The launcher failed, or ranks vanished without a word."""
    rundir = RunDir(Path(plan.run_dir))
    if report.ranks and len(report.ranks) == plan.target.world_size:
        what = f"the launcher {plan.launcher!r} failed after all ranks had succeeded"
    elif report.ranks:
        what = f"{len(_missing(report, plan))} of {plan.target.world_size} ranks left no report"
    else:
        what = f"the launcher {plan.launcher!r} ended before any rank left a report"
    lines = [f"error: {what}", *_quoted("its last lines", launcher_lines(rundir))]
    return [*lines, *_others(report, plan), f"  log: {rundir.submission / 'host-0.log'}"]


def _cause(rank: RankReport) -> str:
    if rank.failure is not None:
        text = rank.failure.text.strip().partition("\n")[0]
        return f"{rank.failure.type}: {text}"[:_WIDTH] if text else rank.failure.type
    if rank.signal is not None:
        return _SIGNALS.get(rank.signal, f"killed by {rank.signal}")
    return f"it ended with exit status {rank.exit_code}"


def _others(report: RunReport, plan: RunPlan) -> list[str]:
    """The ranks beside the first, counted: their errors are consequences and would hide the cause."""
    failed = sum(1 for rank in report.ranks if rank.exit_code and rank.rank != report.first_failure)
    missing = _missing(report, plan)
    said = []
    if failed:
        said.append(f"{failed} other rank{'s' * (failed > 1)} ended in consequence")
    if missing and report.ranks:
        names = ", ".join(map(str, missing[:_LINES])) + (", ..." if len(missing) > _LINES else "")
        said.append(f"no report from rank{'s' * (len(missing) > 1)} {names}")
    return [f"  and: {'; '.join(said)}"] if said else []


def _missing(report: RunReport, plan: RunPlan) -> list[int]:
    return sorted(set(range(plan.target.world_size)) - {rank.rank for rank in report.ranks})


def _quoted(title: str, lines: tuple[str, ...]) -> list[str]:
    shown = [one_line(line)[:_WIDTH] for line in lines if line.strip()][-_LINES:]
    return [f"  {title}:", *(f"    {line}" for line in shown)] if shown else []


def _logs(plan: RunPlan) -> str:
    return str(RunDir(Path(plan.run_dir)).logs(plan.module or plan.task.kind))


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
