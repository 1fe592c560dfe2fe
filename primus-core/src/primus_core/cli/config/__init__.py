"""``primus config COMMAND``: what experiment files mean, and whether they are right. Writes no run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import cast

from primus_core.cli.main import Command, usage_of
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode

COMMANDS = {
    "show": "the resolved experiment; --origins adds where each value came from",
    "explain": "one value: where it comes from, what it overrode, what becomes of it",
    "translate": "what becomes of every parameter with a back end",
    "diff": "how two experiments differ in meaning",
    "validate": "everything that is wrong with experiment files",
    "schema": "a JSON Schema with which an editor completes and checks experiment files",
    "launcher": "the options of launchers from all files, each with the place that says it",
    "init": "a commented experiment file to start from",
}

_USAGE = """\
usage: primus config COMMAND ...

Know what an experiment file means. Nothing is started.

commands:
{commands}

`primus config COMMAND --help` explains a command."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run one of the commands; returns the exit code."""
    options = [word for word in argv if word == "--debug" or word.startswith("--config=")]
    words = [word for word in argv if word not in options]
    if not words:
        raise ConfigError("no command after `config`", remedy="`primus config --help` lists them")
    if words[0] in ("-h", "--help"):
        say(_USAGE.format(commands=usage_of(COMMANDS)))
        return ExitCode.OK
    return _find(words[0])([*words[1:], *options], env)


def _find(name: str) -> Command:
    if name not in COMMANDS:
        from primus_core.parameters import nearest  # here: help and a known command do without it

        meant = nearest(name, COMMANDS)
        remedy = f"did you mean `primus config {meant}`?" if meant else "`primus config --help` lists the commands"
        raise ConfigError(f"no command `config {name}`", remedy=remedy)
    return cast(Command, import_module(f"primus_core.cli.config.{name}").main)
