"""The command's options, and what it prints and writes."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from primus_core.cli.arguments import Parser, add_run_options, name_options
from primus_core.cli.launching import in_mode, with_launcher_file
from primus_core.cli.modes import Mode
from primus_core.cli.output import complain, say
from primus_core.cli.projection.answer import Answer, answer
from primus_core.cli.projection.judging import Asked
from primus_core.cli.projection.page import projection_page
from primus_core.errors import ConfigError, ErrorGroup, ExitCode, PrimusError, RunError
from primus_core.files import write_atomic
from primus_core.hardware import accelerator_models
from primus_core.render.pages import as_html, as_text

_LATER = ("performance", "both")
"""Suites of the reference that are not there yet."""
_STARTING = (
    *("patch", "log_file", "numa", "silent", "dry_run", "run_id", "skip_preflight", "preflight", "allow_patch_drift"),
    "hostfile",
)
"""Options of a run that only matter where it starts."""


def project(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Print the projection of one experiment; returns the exit code."""
    parser = _parser()
    args = with_launcher_file(in_mode(parser.parse_intermixed_args(argv), mode), env)
    _check(args)
    try:
        found = answer(Asked.of(args, env))
    except (PrimusError, ErrorGroup) as error:
        raise name_options(error, argv, parser.option_names) from None
    page = projection_page(found)
    if args.html is not None:
        _write(args.html, as_html(page, _no_chart))
    say(_as_json(found) if args.format == "json" else as_text(page))
    if args.html is not None:
        complain(f"written to {args.html}\n", env)
    return ExitCode.OK


def _parser() -> Parser:
    about = (
        "Tell what memory a run will need on each pipeline stage, whether it fits on a device, and the cheapest "
        "changes that make it fit. Nothing is started; neither a GPU nor the training library is needed."
    )
    parser = Parser(prog="primus projection", description=about, allow_abbrev=False)
    parser.add_argument("suite", choices=["memory", *_LATER], help="what to project; memory is all there is so far")
    parser.add_argument("--config", dest="experiment", required=True, metavar="FILE", help="experiment file (YAML)")
    models = ", ".join(model.model.lower() for model in accelerator_models())
    parser.add_argument("--gpu", metavar="MODEL", help=f"the device that it has to fit on: {models}")
    parser.add_argument("--gpus", type=int, metavar="N", help="ranks in all; default: as few as the layout needs")
    busy = "tokens that the experts of the projected rank get, over those of a mean rank; default: 1"
    parser.add_argument("--moe-load-factor", type=float, default=1.0, metavar="F", help=busy)
    parser.add_argument("--calibrate", metavar="RUN", help="take the margin from what this run measured on its devices")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--html", metavar="FILE", help="write a page with a chart of all stages, too")
    add_run_options(parser)
    parser.hide(_STARTING)
    return parser


def _check(args: argparse.Namespace) -> None:
    if args.suite in _LATER:
        why = "times are not projected yet"
        raise ConfigError(f"no projection of {args.suite}", why=why, remedy="`primus projection memory` is there")
    if args.gpus is not None and args.gpus < 1:
        raise ConfigError(f"--gpus {args.gpus}", why="a run has at least one rank", remedy="give 1 or more")
    if args.html is not None and (not args.html or os.path.isdir(args.html)):
        why = "it is a folder" if args.html else "the name is empty"
        remedy = f"name a file: --html {os.path.join(args.html, 'memory.html')}"
        raise ConfigError(f"--html {args.html!r} is no file to write", why=why, remedy=remedy)
    if not 1 <= args.moe_load_factor < math.inf:
        why = "the busiest rank gets at least its equal share"
        raise ConfigError(f"--moe-load-factor {args.moe_load_factor:g}", why=why, remedy="give 1 or more")


def _as_json(found: Answer) -> str:
    from primus_core.codec import to_json  # here: text does without

    return to_json(found).rstrip("\n")


def _no_chart(chart: object) -> str:
    raise TypeError(f"the page has no chart of lines: {chart}")


def _write(path: str, text: str) -> None:
    try:
        write_atomic(Path(path), text)
    except OSError as error:
        why, remedy = error.strerror or str(error), "name a file in a folder that you may write to"
        raise RunError("cannot write the page", where=path, why=why, remedy=remedy) from None
