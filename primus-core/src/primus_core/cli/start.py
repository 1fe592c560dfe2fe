"""``primus start PLAN``: carry out a plan that exists; what a scheduler's job script calls."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import evolve

from primus_core import discovery, report, submit
from primus_core.cli.arguments import Parser
from primus_core.cli.finding import read_plan
from primus_core.cli.output import say
from primus_core.cli.run import experiment_of, headline
from primus_core.errors import ConfigError, ExitCode, PrimusError
from primus_core.hooks import load_host
from primus_core.log.console import topic_line
from primus_core.outcome import Problem, RunReport
from primus_core.plan import RunPlan, Submission
from primus_core.rundir import RunDir
from primus_core.submit.console import Console
from primus_core.submit.handle import Handle, read_handle, requeue, write_handle

_SIGNALLED = 128


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Start the run of a plan and wait for its end; returns its exit code."""
    args = _parser().parse_args(argv)
    plan = read_plan(Path(args.plan))
    rundir = RunDir(Path(plan.run_dir))
    done = report.read(rundir)
    if done is not None and done.exit_code == ExitCode.OK and not done.stopped:
        say("\n".join([headline(plan), report.screen(done, plan), topic_line("start", "nothing is left to do")]))
        return ExitCode.OK
    with _reported(rundir):
        handle, ended = _carried_out(plan, env, name=args.handle or None, starts=args.starts)
    if handle is not None and ended.stopped:
        _ask_again(handle, ended)
    if plan.task.kind != "preflight" or ended.stopped or ended.exit_code > _SIGNALLED:
        return ended.exit_code
    return _judged(plan, env)


def _judged(plan: RunPlan, env: Mapping[str, str]) -> int:
    """The nodes of a preflight have said what they saw: its own command judges them, and leaves the reports."""
    from primus_core.cli.main import find_command  # here: it calls this module

    words = plan.task.arguments.get("judge")
    options = list(map(str, words)) if isinstance(words, list) else []
    return find_command("preflight")(["report", plan.run_dir, *options], env)


def _carried_out(
    plan: RunPlan, env: Mapping[str, str], *, name: str | None, starts: int
) -> tuple[Handle | None, RunReport]:
    """Start the run; a job script that is started by hand has no name for it."""
    submission = _submission(plan, allocated=name is not None)
    say(headline(plan))
    with experiment_of(plan, env, again=starts > 0):
        rundir = RunDir(Path(plan.run_dir))
        handle = _kept_handle(rundir, submission, plan, name) if name is not None else None
        console = Console.on(sys.stdout, env)
        ended = submit.submit(submission, plan, env=env, console=console, again=handle is not None)
        say(report.screen(ended, plan))
    return handle, ended


@contextmanager
def _reported(rundir: RunDir) -> Iterator[None]:
    """Nobody watches a job: what keeps its run from starting is in the run's report too, unless it has one."""
    since = time.time()
    try:
        yield
    except PrimusError as error:
        if not rundir.report.exists():
            with suppress(OSError):
                report.write(rundir, _unstarted(rundir, error, since))
        raise


def _unstarted(rundir: RunDir, error: PrimusError, since: float) -> RunReport:
    return RunReport(
        run_id=rundir.path.name,
        exit_code=error.exit_code,
        started=since,
        ended=time.time(),
        launcher_problems=tuple(Problem(**one.told()) for one in error.problems),
    )


def _parser() -> Parser:
    about = "Carry out a plan: that of `primus plan --output`, or of a run that a scheduler starts."
    parser = Parser(prog="primus start", description=about, allow_abbrev=False)
    parser.add_argument("plan", metavar="PLAN", help="a plan.json")
    parser.add_argument(
        "--handle", metavar="JOB", help="the scheduler's name for the run, whose nodes it has given; in job scripts"
    )
    parser.add_argument(
        "--starts", type=int, default=0, metavar="N", help="how often the scheduler started the job before; default: 0"
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _submission(plan: RunPlan, *, allocated: bool) -> Submission:
    hosts = load_host(discovery.scan(), backend=None, launcher=plan.launcher, preflight=False)
    submission = hosts.launch(evolve(plan.job, allocated=allocated))
    if submission.detached:
        raise ConfigError(
            f"the plan is for a job of a scheduler ({plan.launcher})",
            why="it can be carried out on the nodes that the scheduler gives to the job",
            remedy=f"submit its job script, which is in {RunDir(Path(plan.run_dir)).submission}",
        )
    return submission


def _kept_handle(rundir: RunDir, submission: Submission, plan: RunPlan, name: str) -> Handle:
    """The job that runs now, written down where the user submitted its script by hand; for `primus status`."""
    known, mine = read_handle(rundir), Handle.of(name, submission, plan, time.time())
    if known is None or known.handle != name:
        write_handle(rundir, mine)
    return mine


def _ask_again(handle: Handle, stopped: RunReport) -> None:
    """Have the scheduler start the run again, which ends this job."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    refused = requeue(handle)
    told = f"is not queued again: {refused}" if refused else "is queued again, and goes on from there"
    say(topic_line("requeue", f"job {handle.handle} {told}"))
