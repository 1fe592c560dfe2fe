"""``primus status [RUN]``: where a run stands, also one that a scheduler starts later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from attrs import frozen

from primus_core.cli.arguments import Parser
from primus_core.cli.finding import RUN_HELP, plan_of, read_plan, short_name
from primus_core.cli.output import say
from primus_core.cli.run import headline
from primus_core.codec import to_json
from primus_core.errors import ExitCode
from primus_core.log.console import topic_line
from primus_core.plan import RunPlan
from primus_core.quantities import utc_time
from primus_core.report import screen
from primus_core.report.state import PLANNED, Standing, has_begun, standing
from primus_core.rundir import RunDir
from primus_core.submit.handle import Handle, SchedulerSays, ask, read_handle

State = Literal["planned", "pending", "running", "requeued", "completed", "stopped", "failed", "cancelled", "lost"]
"""Of those that are not plain:

- ``planned``: nothing has started it yet;
- ``requeued``: the scheduler will start it again;
- ``stopped``: it saved for a signal, and nobody starts it again;
- ``lost``: it runs no more and left no report, and the scheduler has forgotten it.
"""


@frozen(kw_only=True)
class Status:
    """A run as it stands, for those who read JSON."""

    run_id: str
    run_dir: str
    state: State
    launcher: str
    job: str | None
    """The scheduler's name for the run; None for one that was handed to no scheduler."""
    scheduler: SchedulerSays | None
    exit_code: int | None
    """Of a run that has ended and left a report."""
    first_failure: int | None
    """The rank that failed first."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Tell where a run stands; returns the exit code, which is 0 whatever became of the run."""
    args = _parser().parse_args(argv)
    plan = read_plan(plan_of(args.run, env))
    rundir = RunDir(Path(plan.run_dir))
    handle, found = read_handle(rundir), standing(rundir, plan)
    status = _status(plan, found, handle, ask(handle) if handle else None)
    if args.format == "json":
        say(to_json(status).rstrip("\n"))
    else:
        say("\n".join(_lines(status, plan, found, handle, env)))
    return ExitCode.OK


def _parser() -> Parser:
    about = (
        "Tell where a run stands: planned, pending, running, requeued, completed, stopped, failed, cancelled or lost."
    )
    parser = Parser(prog="primus status", description=about, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _status(plan: RunPlan, found: Standing, handle: Handle | None, says: SchedulerSays | None) -> Status:
    report = found.report if found.state == "ended" else None
    return Status(
        run_id=plan.run_id,
        run_dir=plan.run_dir,
        state=_state(found, handle, says),
        launcher=plan.launcher,
        job=handle.handle if handle else None,
        scheduler=says,
        exit_code=report.exit_code if report else None,
        first_failure=report.first_failure if report else None,
    )


def _state(found: Standing, handle: Handle | None, says: SchedulerSays | None) -> State:
    """What the scheduler says of a run that it has yet to end, else what the run left."""
    told = says.state if says else "unknown"
    if told == "pending":  # also where the process of its last start was lost so lately that it counts as alive
        return "requeued" if found.report or found.earlier or (says and says.restarts) else "pending"
    if told == "running" or found.holder:
        return "running"
    if told == "cancelled" or (handle and handle.cancelled and not _is_whole(found)):
        return "cancelled"
    if handle is None and not has_begun(found):
        return "planned"
    if found.state != "ended" or found.report is None:
        return "lost" if told == "unknown" else "failed"
    if found.report.exit_code:
        return "failed"
    return "stopped" if found.report.stopped else "completed"


def _is_whole(found: Standing) -> bool:
    """The run came to its own end, whatever was asked for meanwhile."""
    return found.state == "ended" and found.report is not None and not found.report.stopped


def _lines(status: Status, plan: RunPlan, found: Standing, handle: Handle | None, env: Mapping[str, str]) -> list[str]:
    lines = [headline(plan)]
    if handle and status.scheduler:
        lines.append(topic_line("job", f"{handle.handle} of {handle.launcher}: {status.scheduler.text}"))
    lines.append(topic_line("status", _words(status, found, handle)))
    if found.report is not None and status.state not in ("pending", "running"):
        lines.append(screen(found.report, plan))
    elif status.state in ("failed", "lost"):
        lines.append(topic_line("printed", f"{RunDir(Path(plan.run_dir)).submission}: what the job printed"))
    if status.state in ("pending", "running"):
        name = short_name(Path(plan.run_dir), env)
        lines.append(topic_line("follow", f"primus logs {name} --follow, primus cancel {name}"))
    return lines


def _words(status: Status, found: Standing, handle: Handle | None) -> str:
    """The state and what there is to say of it."""
    if status.state == "pending" and handle:
        return f"pending, since {utc_time(handle.submitted)}"
    if status.state == "running" and found.holder:
        return f"running, since {utc_time(found.holder.since)}: process {found.holder.pid} on {found.holder.host}"
    if status.state == "running":
        return "running, and its ranks are not started yet"
    if status.state == "planned":
        return PLANNED
    if status.state == "lost":
        return "lost: nothing runs it any more, and it left no report"
    if status.state == "cancelled" and handle and handle.cancelled:
        return f"cancelled, at {utc_time(handle.cancelled)}"
    if status.state == "failed" and found.report is None:
        return "failed before any rank left a report"
    return status.state
