"""The arguments that every command which plans a run understands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import NoReturn

from primus_core.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one of our errors (exit 2, with a remedy)."""

    def error(self, message: str) -> NoReturn:
        # overrides may be left out, whatever argparse says of words that are parsed between options
        raise ConfigError(message.replace(", key=value", ""), remedy=f"`{self.prog} --help` lists the arguments")


def run_parser(prog: str, description: str) -> Parser:
    """Parser of ``EXPERIMENT [key=value ...]`` and the options of a run."""
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("experiment", help="experiment file (YAML)")
    add_run_options(parser)
    return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="set a parameter for this run")
    parser.add_argument("--launcher", metavar="NAME", help="direct (torchrun) or single; default: direct if installed")
    parser.add_argument("--nproc", type=int, metavar="N", help="ranks on this node")
    parser.add_argument(
        "--env", action="append", default=[], metavar="KEY=VALUE", help="environment of the ranks; repeatable"
    )
    parser.add_argument("--preset-path", action="append", default=[], metavar="DIR", help="look for presets here too")
    parser.add_argument("--run-id", metavar="ID", help="name of the run; default: start time and a random part")
    parser.add_argument("--strict", action="store_true", help="a setting that has no effect is an error")
    parser.add_argument("--skip-preflight", action="store_true", help="leave out the checks of preflight plugins")
    parser.add_argument(
        "--allow-patch-drift", action="append", default=[], metavar="ID", help="apply this patch to a changed target"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check, print the commands that would run, write nothing"
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")


def parse_env(pairs: Sequence[str], shell: Mapping[str, str]) -> dict[str, str]:
    """``KEY=VALUE`` sets a variable; ``KEY`` alone takes it from the shell.

    Raises:
        ConfigError: ``KEY`` alone is not set in the shell, or the name is no variable's name.
    """
    env = {}
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not name.isidentifier():
            raise ConfigError(f"--env {pair!r}: no name of a variable", remedy="--env KEY=VALUE")
        if not given and name not in shell:
            raise ConfigError(f"--env {name}: not set in this shell", remedy=f"--env {name}=VALUE, or export it first")
        env[name] = value if given else shell[name]
    return env
