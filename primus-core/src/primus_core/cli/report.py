"""``primus report [RUN]``: what became of a run; of one that failed, who failed first, where and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from primus_core.cli.arguments import Parser
from primus_core.cli.finding import RUN_HELP, plan_of, read_plan
from primus_core.cli.output import say
from primus_core.cli.run import headline
from primus_core.codec import to_json
from primus_core.errors import ConfigError, ExitCode
from primus_core.log.console import topic_line
from primus_core.outcome import RankReport
from primus_core.plan import RunPlan
from primus_core.quantities import utc_time
from primus_core.report import screen
from primus_core.report.details import rank_lines
from primus_core.report.state import PLANNED, Standing, has_begun, standing
from primus_core.rundir import RunDir
from primus_core.submit.handle import read_handle


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the report; returns the exit code, which is 0 whatever became of the run."""
    args = _parser().parse_args(argv)
    plan = read_plan(plan_of(args.run, env))
    rundir = RunDir(Path(plan.run_dir))
    found = standing(rundir, plan)
    if args.rank is not None:
        rank = _rank(found, args.rank)
        say(to_json(rank).rstrip("\n") if args.format == "json" else "\n".join(rank_lines(rank)))
    elif args.format == "json":
        say(to_json(found).rstrip("\n"))
    else:
        say("\n".join([headline(plan), *_earlier(found, plan), *_text(found, plan)]))
    return ExitCode.OK


def _parser() -> Parser:
    about = "Show what became of a run: the end of one that succeeded; of one that failed, who failed first, and why."
    parser = Parser(prog="primus report", description=about, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    parser.add_argument(
        "--rank", type=int, metavar="N", help="all that this rank left: traceback, versions, last lines"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _earlier(found: Standing, plan: RunPlan) -> list[str]:
    """The starts that failed, each followed by the one after it."""
    lines = []
    for report in found.earlier:
        lines += [screen(report, plan), topic_line("restart", f"{report.attempt}, at {utc_time(report.ended)}")]
    return lines


def _text(found: Standing, plan: RunPlan) -> list[str]:
    if holder := found.holder:
        since = utc_time(holder.since)
        return [topic_line("running", f"since {since}: process {holder.pid} on {holder.host}")]
    if found.report is None and (handle := read_handle(RunDir(Path(found.run_dir)))):
        return [
            topic_line("job", f"{handle.handle}, which has left no report; `primus status {plan.run_id}` tells more")
        ]
    if not has_begun(found):
        return [topic_line("status", PLANNED)]
    if found.report is None:
        return [topic_line("lost", "nothing runs it any more, and no rank left a report")]
    lost = ["nothing runs it any more, and it has no report.json; this is what its ranks left:"]
    return [*(lost if found.state == "lost" else []), screen(found.report, plan)]


def _rank(found: Standing, number: int) -> RankReport:
    ranks = found.report.ranks if found.report else ()
    for rank in ranks:
        if rank.rank == number:
            return rank
    known = ", ".join(str(rank.rank) for rank in ranks[:8]) + (" ..." if len(ranks) > 8 else "")
    why = f"reports are there of rank {known}" if ranks else "no rank has left a report yet"
    raise ConfigError(f"rank {number} left no report", where=found.run_dir, why=why)
