"""A run's end in one screen: the rank that failed first, or what was reached."""

from __future__ import annotations

import signal
from pathlib import Path

from primus_core.errors import ExitCode
from primus_core.log.console import topic_line
from primus_core.outcome import RunReport
from primus_core.plan import RunPlan
from primus_core.quantities import duration
from primus_core.report.attempts import attempts_folder
from primus_core.report.diagnosis import told_by
from primus_core.report.failures import failure_lines, logs_of, missing, others, quoted_lines, told
from primus_core.report.launcher import launcher_lines, told_error
from primus_core.report.merge import read
from primus_core.report.projected import memory_lines
from primus_core.rundir import RunDir
from primus_core.screens import problem_lines

_INTERRUPTED = 128
"""A run that was told to end by a signal has 128 and the signal's number as its exit code, as shells have it."""


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
    if report.launcher_problems:
        return "\n".join(_told_by_launcher(report, plan))
    if report.first_failure is not None:
        return "\n".join(failure_lines(report, plan))
    return "\n".join(_no_report(report, plan))


def _success(report: RunReport, plan: RunPlan) -> list[str]:
    reached = [
        f"iteration {report.result['iteration']}" if report.result.get("iteration") is not None else "",
        f"loss {_figure(report.result['loss'])}" if report.result.get("loss") is not None else "",
        duration(report.ended - report.started),
    ]
    if report.stopped:
        lines = [
            topic_line("stopped", ", ".join([f"by {report.stopped}", *filter(None, reached)])),
            _go_on(report, plan),
        ]
    else:
        lines = [topic_line("done", ", ".join(filter(None, reached)))]
    lines += memory_lines(report, plan, RunDir(Path(plan.run_dir)))
    lines += [topic_line("logs", _logs(plan))]
    if earlier := report.attempt - 1:
        told = f"{earlier}, of which the reports are in {attempts_folder(RunDir(Path(plan.run_dir)))}"
        lines.append(topic_line("restarts", told))
    checkpoint = report.result.get("checkpoint")
    return [*lines, topic_line("checkpoint", str(checkpoint))] if checkpoint else lines


def _go_on(report: RunReport, plan: RunPlan) -> str:
    """The marker of a stopped run, and what continues it."""
    marker = RunDir(Path(plan.run_dir)).path / "requeue.json"
    then = (
        "auto_continue_train=true goes on"
        if report.result.get("checkpoint")
        else "there is no checkpoint to go on from"
    )
    return topic_line("requeue", f"asked for in {marker}; {then}")


def _interrupted(report: RunReport, plan: RunPlan) -> list[str]:
    reached = max((rank.iteration for rank in report.ranks if rank.iteration is not None), default=None)
    where = "before the first iteration" if reached is None else f"after iteration {reached}"
    name = signal.Signals(report.exit_code - _INTERRUPTED).name
    return [topic_line("interrupted", f"{where}, by {name}"), topic_line("logs", _logs(plan))]


def _told_by_launcher(report: RunReport, plan: RunPlan) -> list[str]:
    """What the launcher knows better than any rank: nothing was started, or a host is gone."""
    lines = problem_lines(report.launcher_problems)
    log = RunDir(Path(plan.run_dir)).submission / "host-0.log"
    told = others(report, plan) if report.ranks else []
    return [*lines, *told, *([f"  log: {log}"] if log.exists() else [])]


def _no_report(report: RunReport, plan: RunPlan) -> list[str]:
    """The launcher failed, ranks could not even start, or vanished without a word."""
    rundir = RunDir(Path(plan.run_dir))
    lines = _unstarted(rundir) if not report.ranks else []
    if not lines:
        lines = [f"error: {_launcher_fault(report, plan)}", *quoted_lines("its last lines", launcher_lines(rundir))]
    return [*lines, *others(report, plan), f"  log: {rundir.submission / 'host-0.log'}"]


def _unstarted(rundir: RunDir) -> list[str]:
    """Why no rank left a report, where a rank or the launcher said so."""
    if told_by_rank := told_error(rundir):
        return [f"error: no rank could start: {told_by_rank[0]}", *told_by_rank[1:]]
    known = told_by(reversed(launcher_lines(rundir)))
    if known is None:
        return []
    return [f"error: no rank could start: {known.what}", *told("why", known.why), *told("try", known.remedy)]


def _launcher_fault(report: RunReport, plan: RunPlan) -> str:
    if report.ranks and len(report.ranks) == plan.target.world_size:
        return f"the launcher {plan.launcher!r} failed after all ranks had succeeded"
    if report.ranks:
        return f"{len(missing(report, plan))} of {plan.target.world_size} ranks left no report"
    how = f"was killed by {report.launcher_signal}" if report.launcher_signal else "ended"
    return f"the launcher {plan.launcher!r} {how} before any rank left a report"


def _logs(plan: RunPlan) -> str:
    return str(logs_of(plan))


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
