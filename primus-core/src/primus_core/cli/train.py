"""``primus train pretrain --config exp.yaml``: the reference's spelling of ``primus run exp.yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from primus_core.cli.arguments import Parser, add_run_options
from primus_core.cli.launching import in_mode
from primus_core.cli.modes import Mode
from primus_core.cli.run import run


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Run one experiment; returns the exit code."""
    parser = Parser(prog="primus train", description="Train a model from an experiment file.", allow_abbrev=False)
    parser.add_argument("suite", choices=["pretrain"], help="what to train")
    parser.add_argument("--config", dest="experiment", required=True, metavar="FILE", help="experiment file (YAML)")
    add_run_options(parser)
    return run(in_mode(parser.parse_intermixed_args(argv), mode), env)
