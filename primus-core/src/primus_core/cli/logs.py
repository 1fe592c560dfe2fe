"""``primus logs [RUN]``: what the ranks of a run logged, merged by time, also while it goes on."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

from primus_core.cli.arguments import Parser
from primus_core.cli.finding import RUN_HELP, plan_of
from primus_core.cli.output import complain, say
from primus_core.errors import ConfigError, ExitCode
from primus_core.log.levels import LEVELS
from primus_core.log.redaction import Redactor
from primus_core.logview.looks import Json, Text
from primus_core.logview.reading import Follower, Logs, merged, one_by_one
from primus_core.logview.records import Record
from primus_core.logview.selection import Selection, known_level, moment, some_ranks
from primus_core.planning.secrets import secret_names
from primus_core.rundir import RunDir

_LINES_AT_ONCE = 500


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print what is asked for; returns the exit code."""
    args = _parser().parse_args(argv)
    selection = _selection(args)
    rundir, run_id, module = _run(plan_of(args.run, env), args.module)
    folder = rundir.logs(module)
    logs = Logs(folder=str(folder), run_id=run_id, module=module, selection=selection)
    ranks = logs.ranks()
    if not ranks and not args.follow:
        raise _nothing(folder, args.rank)
    looks = Json(run_id, module) if args.format == "json" else Text(ranks)
    shown = _show(_batches(logs, rundir, args), looks.lines, Redactor.of_environment(secret_names(env), env))
    if shown == 0:
        complain(f"no record of run {run_id} is asked for in {folder}\n", env)
    return ExitCode.OK


def _parser() -> Parser:
    about = "Show what the ranks of a run logged, merged by time. Times are UTC."
    parser = Parser(prog="primus logs", description=about, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    parser.add_argument("--rank", metavar="RANKS", help="of these ranks only: `3,7-9`")
    levels = f"this level and above: {', '.join(LEVELS)}; default: info"
    parser.add_argument("--level", default="info", metavar="LEVEL", help=levels)
    parser.add_argument("--module", metavar="M", help="of another module of the experiment than the run's own")
    since = "from then on: `10m` ago, `09:30`, `2026-01-31T09:30:00`"
    parser.add_argument("--since", metavar="T", help=since)
    parser.add_argument("--grep", metavar="RE", help="records in which this regular expression is found")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with what comes, until the run has ended")
    merge = "by time (default), or with --no-merge rank after rank"
    parser.add_argument("--merge", action=argparse.BooleanOptionalAction, default=True, help=merge)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _selection(args: argparse.Namespace) -> Selection:
    try:
        pattern = re.compile(args.grep) if args.grep is not None else None
    except re.error as error:
        remedy = "write a regular expression of Python"
        raise ConfigError(f"--grep {args.grep}", why=f"it is no regular expression: {error}", remedy=remedy) from None
    return Selection(
        ranks=some_ranks(args.rank) if args.rank is not None else lambda rank: True,
        level=known_level(args.level),
        since=moment(args.since, datetime.now(timezone.utc)) if args.since is not None else None,
        pattern=pattern,
    )


def _run(plan: Path, module: str | None) -> tuple[RunDir, str, str]:
    """The run's folder, its id and the name of its log folder: the plan's, or another that has logs."""
    try:
        told = json.loads(plan.read_text(encoding="utf-8"))
        rundir = RunDir.with_plan(plan, told["run_dir"])
        run_id, own = told["run_id"], told["module"] or told["task"]["kind"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("the plan cannot be read", where=str(plan), why=str(error)) from None
    if module is not None and not rundir.logs(module).is_dir():
        known = sorted(path.name for path in rundir.logs(own).parent.glob("*"))
        raise ConfigError(f"--module {module}: no such logs", remedy=f"there are: {', '.join(known) or 'none yet'}")
    return rundir, run_id, module or own


def _nothing(folder: Path, asked: str | None) -> ConfigError:
    known = sorted(int(path.name[5:]) for path in folder.glob("rank-*") if path.name[5:].isdigit())
    if asked is None or not known:
        return ConfigError("nothing was logged yet", where=str(folder), remedy="`--follow` waits for it")
    ranks = f"ranks {known[0]} to {known[-1]}" if len(known) > 1 else f"rank {known[0]}"
    return ConfigError(f"--rank {asked}: no such ranks", where=str(folder), remedy=f"there are logs of {ranks}")


def _batches(logs: Logs, rundir: RunDir, args: argparse.Namespace) -> Iterator[Iterable[Record]]:
    if args.follow:
        return Follower(logs=logs, ended=rundir.report.exists, merge=args.merge).batches()
    return iter([merged(logs) if args.merge else one_by_one(logs)])


def _show(
    batches: Iterable[Iterable[Record]], lines: Callable[[Record], Iterable[str]], redact: Callable[[str], str]
) -> int:
    """Print records until there are no more or nobody reads any more; returns how many there were."""
    count = 0
    for batch in batches:
        records = iter(batch)
        while some := list(islice(records, _LINES_AT_ONCE)):
            count += len(some)
            if not say(redact("\n".join(line for record in some for line in lines(record)))):
                return count
    return count
