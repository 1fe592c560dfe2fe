"""What came of a preflight: everything put together, judged, written and told."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.cli.output import complain, say
from primus_core.errors import RunError
from primus_core.log.redaction import Redactor
from primus_core.planning.secrets import secret_names
from primus_core.records import frozen
from primus_core.screens import problem_lines
from primus_preflight import reporting
from primus_preflight.cli.starting import Ended
from primus_preflight.gathering import read
from primus_preflight.judging import Limits, judge
from primus_preflight.model import Gathered


@frozen(kw_only=True)
class Criteria:
    """By what nodes are judged."""

    limits: Limits
    baseline: Gathered | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Criteria:
        """Those of the command line.

        Raises:
            ConfigError: a file of them is wrong.
        """
        baseline = read([Path(args.baseline)]) if args.baseline else None
        return cls(limits=Limits.of(args.limits), baseline=baseline)


def conclude(folder: Path, ended: Ended, criteria: Criteria, env: Mapping[str, str]) -> int:
    """Judge what the nodes have left and tell it; returns the exit code."""
    gathered = read([folder])
    redact = Redactor.of_environment(secret_names(env), env)
    gathered = evolve(gathered, hosts=gathered.hosts or ended.hosts, said=tuple(map(redact, ended.said)))
    if not gathered.nodes and ended.problems:
        errors = [RunError(one.what, where=one.where, why=one.why, remedy=one.remedy) for one in ended.problems]
        complain("".join(f"{line}\n" for line in problem_lines(errors)), env)
        return ended.exit_code
    return tell(gathered, folder, criteria)


def tell(gathered: Gathered, folder: Path, criteria: Criteria) -> int:
    """Judge, write the reports into a folder, print one screen; returns the exit code.

    Raises:
        RunError: a report cannot be written.
    """
    report = judge(gathered, criteria.limits, criteria.baseline)
    try:
        reporting.write(report, folder)
    except OSError as error:
        raise RunError("cannot write the report", where=str(folder), why=error.strerror or str(error)) from None
    say(reporting.screen(report))
    return int(report.exit_code)
