"""``primus plan exp.yaml --output FILE``: write the plan of a run; start nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from primus_core.cli.arguments import run_parser
from primus_core.cli.launching import in_mode, patched, with_launcher_file
from primus_core.cli.modes import Mode
from primus_core.cli.output import complain, say
from primus_core.cli.prepare import Prepared, prepare
from primus_core.cli.run import warn, write_code, write_files
from primus_core.codec import to_json
from primus_core.errors import ExitCode, RunError
from primus_core.files import write_atomic


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Write or print the plan; returns the exit code."""
    parser = run_parser("primus plan", "Write the plan of a run (plan.json) without starting it.")
    parser.add_argument("--output", metavar="FILE", help="where to write it; default: standard output")
    args = with_launcher_file(in_mode(parser.parse_intermixed_args(argv), mode), env)
    shell = patched(args, env, lambda line: complain(f"{line}\n", env))  # standard output is for the plan
    prepared = prepare(args, shell, starts=False)
    warn(prepared)
    if args.output is None or args.dry_run:
        say(to_json(prepared.plan).rstrip())
        return ExitCode.OK
    write_planned(prepared, args.output)
    return ExitCode.OK


def write_planned(prepared: Prepared, output: str) -> None:
    """Write the plan; in its run's own folder with everything else that the launcher's command needs.

    Raises:
        RunError: it cannot be written.
    """
    if os.path.abspath(output) == os.path.abspath(prepared.plan.job.argv[-1]):
        write_code(prepared)
        write_files(prepared)
    try:
        write_atomic(output, to_json(prepared.plan))
    except OSError as error:
        raise RunError("cannot write the plan", where=output, why=str(error)) from None
