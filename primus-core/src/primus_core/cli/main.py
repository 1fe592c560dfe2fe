"""The front door: finds the command, imports it, and turns an error into one screen and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from primus_core import __version__
from primus_core.cli.encoding import use_utf8
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode, PrimusError

Command = Callable[[Sequence[str], Mapping[str, str]], int]

COMMANDS = {
    "run": "train a model from an experiment file",
    "compare": "two runs side by side: experiment, loss, speed, memory; --output DIR adds charts",
    "config": "know what an experiment file means: show, explain, translate, diff, validate, schema, init",
    "data": "`data inspect PREFIX` or `data tokenize INPUT... --output PREFIX`, token files",
    "plan": "write the plan of a run without starting it",
    "patches": "list what a run would patch in the library's code, and why",
    "checkpoint": "`checkpoint list RUN`, or `checkpoint export RUN --to hf --output DIR`, weights for others",
    "plugins": "list the installed plugins",
    "train": "`train pretrain --config exp.yaml`, the same as `run exp.yaml`",
    "direct": "`direct [options] -- COMMAND`, on this host with torchrun",
}

_USAGE = """\
usage: primus [--debug] [--dry-run] [--version] COMMAND ...

One experiment file becomes a training run.

commands:
{commands}

options:
  --dry-run   check everything, print the commands that would run, write nothing
  --debug     show tracebacks, log in detail
  --version   print the version
  -h, --help  print this; `primus COMMAND --help` explains a command

exit codes: 0 success, 1 missing or broken dependency, 2 wrong arguments or configuration, 3 the run failed,
            128 + number of the signal that ended it"""

_OPTIONS = ("--debug", "--dry-run", "--version", "--help", "-h")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    if argv is None:
        use_utf8()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the one place where any failure becomes a screen
        return _fail(error, arguments, debug="--debug" in arguments or _log_level() == "DEBUG")


def _fail(error: Exception, arguments: Sequence[str], *, debug: bool) -> int:
    from primus_core.cli.arguments import name_options
    from primus_core.cli.output import assignments, complain
    from primus_core.cli.screen import error_screen

    env = {**os.environ, **assignments(arguments)}
    if debug:
        complain("".join(traceback.format_exception(error)), env)
    complain(error_screen(name_options(error, arguments)), env)
    return error.exit_code if isinstance(error, PrimusError) else ExitCode.RUNTIME


def _log_level() -> str:
    return os.environ.get("PRIMUS_LOG_LEVEL", "").upper()


def _dispatch(arguments: list[str]) -> int:
    options, rest = _split(arguments)
    if options & {"--version"}:
        say(f"primus {__version__}")
        return ExitCode.OK
    if options & {"--help", "-h"}:
        say(_usage())
        return ExitCode.OK
    if not rest:
        raise ConfigError("no command", remedy="`primus --help` lists them; `primus run exp.yaml` trains")
    return find_command(rest[0])([*sorted(options), *rest[1:]], os.environ)


def _split(arguments: list[str]) -> tuple[set[str], list[str]]:
    """The options before the command's name, and the rest."""
    count = next((n for n, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    unknown = [word for word in arguments[:count] if word not in _OPTIONS]
    if unknown:
        raise ConfigError(f"no option {unknown[0]!r} before the command", remedy=f"known: {', '.join(_OPTIONS)}")
    return set(arguments[:count]), arguments[count:]


def _usage() -> str:
    return _USAGE.format(commands=usage_of(COMMANDS))


def usage_of(commands: Mapping[str, str]) -> str:
    """One line for each command."""
    width = max(map(len, commands)) + 1
    return "\n".join(f"  {name:<{width}}{text}" for name, text in commands.items())


def find_command(name: str) -> Command:
    """A built-in command, else one of an installed plugin.

    Raises:
        ConfigError: no such command; names the nearest.
    """
    if name in COMMANDS:
        return cast(Command, import_module(f"primus_core.cli.{name}").main)
    return _plugin_command(name)


def _plugin_command(name: str) -> Command:
    from primus_core import discovery
    from primus_core.parameters import nearest

    plugins = discovery.scan()
    known = [plugin.name for plugin in plugins.of("primus.commands")]
    if name in known:
        return cast(Command, discovery.load(discovery.select(plugins, "primus.commands", name)))
    guess = nearest(name, [*COMMANDS, *known])
    remedy = f"did you mean `primus {guess}`?" if guess else "`primus --help` lists the commands"
    raise ConfigError(f"no command {name!r}", remedy=remedy)


if __name__ == "__main__":
    sys.exit(main())
