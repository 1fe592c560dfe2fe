"""Carrying out what a launcher asked for."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path

from attrs import evolve

from primus_core import report
from primus_core.errors import DependencyError, ExitCode
from primus_core.failuremark import FailureMark
from primus_core.log.redaction import Redactor
from primus_core.outcome import RunReport
from primus_core.patience import patience_of
from primus_core.plan import RunPlan, Submission
from primus_core.rundir import RunDir
from primus_core.submit import restarts
from primus_core.submit.console import Console
from primus_core.submit.consoles import Shows
from primus_core.submit.files import write_files
from primus_core.submit.launchersays import LauncherSays
from primus_core.submit.peers import ALONE, Peers
from primus_core.submit.restarts import Start
from primus_core.submit.supervisor import Ended, Supervisor

EVENTS = {"PRIMUS_CONSOLE": "events"}
"""Tells the ranks' parents to send events instead of readable lines."""


def submit(
    submission: Submission,
    plan: RunPlan,
    *,
    env: Mapping[str, str],
    console: Shows | None = None,
    peers: Peers = ALONE,
    again: bool = False,
) -> RunReport:
    """Start the processes of a submission, show what they say, and wait for their end.

    Writes the submission's files, the launchers' own output (``submission/host-N.log``) and ``report.json``. When
    it returns, nothing that it started is running any more.

    Args:
        env: environment that the processes inherit, secrets included.
        console: default: standard output.
        peers: the other nodes, where the user starts each by hand; the first of them alone merges and writes reports.
        again: a scheduler may have started this run before: what it left is put aside, and it goes on from what it
            saved.

    Returns:
        The reports of all ranks, merged. Its exit code is 0 for success; 1, 2 or 3 as the rank that failed first
        says; 3 for one that was killed or left no report; 128 and the signal's number for a run that was told to end,
        unless every rank ended in good order.

    Raises:
        DependencyError: the launcher's program cannot be started, or submits and does not wait.
        RunError: the run directory cannot be written.
    """
    if submission.detached:
        raise _leaves(plan.launcher)
    rundir = RunDir(Path(plan.run_dir))
    console = console or Console.on(sys.stdout, env)
    try:
        first = _first_attempt(rundir, plan, peers, again=again)
        write_files(rundir, submission)
        for attempt in count(first):
            if peers.leads:
                report.clear(rundir)
            if again:
                restarts.mark_begun(rundir, attempt)
            peers.begin()
            says = LauncherSays(console.event)
            ended = _supervise(submission, plan, rundir, restarts.environment(attempt, env), console, says, peers)
            start = Start(attempt=attempt, restarts=attempt - first)
            judge = partial(_judge, ended, plan, rundir, console, start, says, peers)
            merged, restarted = peers.conclude(judge)
            if not restarted:
                break
    except OSError as error:
        raise rundir.unwritable(error) from error
    return merged


def _leaves(launcher: str) -> DependencyError:
    return DependencyError(
        f"the launcher {launcher!r} leaves its run to a scheduler",
        why="what waits for a run to end cannot follow one that starts later",
        remedy="hand it over with `primus_core.submit.hand_over`",
    )


def _first_attempt(rundir: RunDir, plan: RunPlan, peers: Peers, *, again: bool) -> int:
    """Its number; of a run that nobody started before, what an earlier one counted is forgotten."""
    if again:
        return restarts.resume(rundir, plan)
    if peers.leads:
        restarts.forget(rundir)
    return 1


def _judge(
    ended: Ended,
    plan: RunPlan,
    rundir: RunDir,
    console: Shows,
    start: Start,
    says: LauncherSays,
    peers: Peers,
) -> tuple[RunReport, int, bool]:
    """The report, its exit code, and whether the run is started again; on another node as node 0 has written it."""
    if not peers.leads:
        merged = report.read(rundir) or RunReport(run_id=plan.run_id, exit_code=ExitCode.RUNTIME, started=0, ended=0)
        return merged, merged.exit_code, False
    merged = _report(ended, plan, rundir, console, start.attempt, says, peers)
    again = ended.signal is None and not peers.lost and restarts.is_due(merged, plan, start)
    if again:
        restarts.begin(rundir, merged, plan, start, console.line)
    return merged, merged.exit_code, again


def _report(
    ended: Ended, plan: RunPlan, rundir: RunDir, console: Shows, attempt: int, says: LauncherSays, peers: Peers
) -> RunReport:
    """Merge what the ranks left, and write it down."""
    merged = report.merge(rundir, plan.target.world_size)
    killed_by = signal.Signals(ended.killed).name if ended.killed else None
    merged = evolve(merged, exit_code=_exit_code(merged, ended, plan), launcher_signal=killed_by, attempt=attempt)
    if ended.stop and ended.signal is not None and len(merged.ranks) < plan.target.world_size:
        merged = evolve(merged, stopped=merged.stopped or signal.Signals(ended.signal).name)
    if peers.lost:
        merged = evolve(merged, launcher_problems=peers.lost, exit_code=ExitCode.RUNTIME)
    if says.problems:
        merged = evolve(merged, launcher_problems=says.problems, exit_code=says.exit_code)
    try:
        restarts.ask_again(rundir, merged)
        report.write(rundir, merged)
    except OSError as error:  # what happened is told all the same
        console.line(f"warning: {rundir.report} could not be written: {error}")
    return merged


def _supervise(
    submission: Submission,
    plan: RunPlan,
    rundir: RunDir,
    env: Mapping[str, str],
    console: Shows,
    says: LauncherSays,
    peers: Peers,
) -> Ended:
    redact = Redactor.of_environment(plan.secrets, env)
    patience = patience_of(plan.settings.values, plan.task.kind)
    torchrun = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": f"{patience.torchrun:.0f}"}
    try:
        with Supervisor(
            on_event=says.event,
            on_notice=console.line,
            on_tick=console.tick,
            redact=redact,
            log_dir=rundir.submission,
            patience=patience,
            failed=partial(_has_failed, FailureMark(str(rundir.ranks)), peers),
            first_host=peers.number,
        ) as supervisor:
            return supervisor.run(submission.processes, {**torchrun, **env, **EVENTS})
    finally:
        console.close()


def _has_failed(mark: FailureMark, peers: Peers) -> bool:
    return peers.trouble() or mark.is_set()


def _exit_code(merged: RunReport, ended: Ended, plan: RunPlan) -> int:
    if merged.exit_code == ExitCode.OK and not any(ended.statuses):
        return ExitCode.OK
    if ended.stop and not any(rank.exit_code for rank in merged.ranks):
        return ExitCode.OK  # whatever the launcher made of it
    if ended.signal is not None:
        return 128 + ended.signal
    if not merged.ranks and report.lacks_module(RunDir(Path(plan.run_dir))):
        return ExitCode.DEPENDENCY
    return merged.exit_code or ExitCode.RUNTIME
