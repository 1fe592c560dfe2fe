"""``primus cancel RUN``: end a run, of a scheduler or of this host."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve

from primus_core.cli.arguments import Parser
from primus_core.cli.finding import RUN_HELP, plan_of, read_plan
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode
from primus_core.lock import Holder, holder_of
from primus_core.log.console import topic_line
from primus_core.rundir import RunDir
from primus_core.submit.handle import ask, cancel, read_handle, write_handle


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Have a run end; returns the exit code."""
    args = _parser().parse_args(argv)
    plan = read_plan(plan_of(args.run, env))
    rundir = RunDir(Path(plan.run_dir))
    handle, holder = read_handle(rundir), holder_of(rundir)
    if handle is not None and (holder or ask(handle).state in ("pending", "running", "unknown")):
        cancel(handle)
        write_handle(rundir, evolve(handle, cancelled=time.time()))
        say(topic_line("cancelled", f"job {handle.handle}, run {plan.run_id}"))
    elif holder is not None:
        _end(holder)
        say(topic_line("cancelled", f"run {plan.run_id}: process {holder.pid} was told to save and to end"))
    else:
        say(topic_line("cancel", f"run {plan.run_id} is not going on; `primus status` tells where it stands"))
    return ExitCode.OK


def _parser() -> Parser:
    about = "End a run: a scheduler's job is cancelled; one of this host saves and ends, as by SIGTERM."
    parser = Parser(prog="primus cancel", description=about, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP.partition("; default")[0])
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _end(holder: Holder) -> None:
    if not holder.is_visible:
        raise ConfigError(
            f"run {holder.run_id} goes on on {holder.host}",
            why=f"this is {socket.gethostname()}, from where its process cannot be told to end",
            remedy=f"on {holder.host}: `kill {holder.pid}`",
        )
    os.kill(holder.pid, signal.SIGTERM)
