"""``primus preflight``: have every node look at itself, and say which of them a run should not use."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from primus_core.cli.launching import in_mode, patched, with_launcher_file
from primus_core.cli.launchoptions import words_of
from primus_core.cli.modes import Mode
from primus_core.cli.output import say
from primus_core.cli.run import headline, warn, write_plan
from primus_core.cli.tasks import tell_or_write
from primus_core.errors import ExitCode
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_preflight.agent.files import folder_of, write_asked
from primus_preflight.agent.node import meets
from primus_preflight.cli.options import arguments_of, asked_groups, limit_of, parser, performance_of, stall_of
from primus_preflight.cli.outcome import Criteria, conclude
from primus_preflight.cli.planning import prepare
from primus_preflight.cli.starting import started
from primus_preflight.gathering import Waiting
from primus_preflight.model import Gathered

if TYPE_CHECKING:
    from primus_core.submit.consoles import Shows  # what starts processes is imported where some are started


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """The command; returns its exit code: 0 pass, 1 a probe could not run, 2 wrong arguments, 3 failures found."""
    if argv[:1] == ["report"]:
        from primus_preflight.cli import report  # here: a preflight has none of its own

        return report.main(argv[1:], env)
    made = parser()
    args = with_launcher_file(in_mode(made.parse_args(argv), mode), env)
    arguments = arguments_of(args)
    if args.dry_run or args.output:
        prepared = prepare(args, arguments, patched(args, env), starts=False)
        warn(prepared)
        modes = args.mode.words if args.mode else ()
        tell_or_write(prepared, args, before=["primus", *modes, "preflight"], options=words_of(made, args))
        if not args.dry_run:
            write_asked(prepared.plan, _asked(prepared.plan, args))
        return ExitCode.OK
    return _run(args, arguments, env)


def _run(args: argparse.Namespace, arguments: Mapping[str, Value], env: Mapping[str, str]) -> int:
    criteria = Criteria.of(args)
    with _console(args, env) as console:
        prepared = prepare(args, arguments, patched(args, env), starts=True)
        warn(prepared)
        plan = prepared.plan
        say(headline(plan))
        if prepared.place is None or prepared.place.leads:
            write_plan(prepared)
            write_asked(plan, _asked(plan, args))
        options = performance_of(args, plan.target, prepared.place)
        limit = limit_of(args, plan.target.nodes, options)
        waiting = Waiting(folder_of(plan), limit=limit, meets=meets(plan), stall=stall_of(options))
        ended = started(prepared, console, waiting, silent=args.silent)
        if ended.code is not None:
            return ended.code
        return conclude(folder_of(plan), ended, criteria, prepared.env)


def _console(args: argparse.Namespace, env: Mapping[str, str]) -> AbstractContextManager[Shows | None]:
    """Where what is said goes, if the user wants it elsewhere or not at all."""
    if not (args.log_file or args.silent):
        return nullcontext()
    from primus_core.cli.copying import console_of  # here: dear, and seldom wanted

    return console_of(args, env)


def _asked(plan: RunPlan, args: argparse.Namespace) -> Gathered:
    hosts = plan.job.options.get("hosts")
    return Gathered(
        run_id=plan.run_id,
        expected_nodes=plan.target.nodes,
        hosts=tuple(map(str, hosts)) if isinstance(hosts, list) else (),
        groups=asked_groups(args),
        tests=tuple(map(str, _list(plan.task.arguments["tests"]))),
        versions=plan.distributions,
    )


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []
