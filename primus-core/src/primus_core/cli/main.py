"""The front door: finds the command, imports it, and turns an error into one screen and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from primus_core import __version__
from primus_core.errors import ConfigError, ExitCode, PrimusError

Command = Callable[[Sequence[str], Mapping[str, str]], int]

COMMANDS = {
    "run": "train a model from an experiment file",
    "plan": "write the plan of a run without starting it",
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

exit codes: 0 success, 1 missing or broken dependency, 2 wrong arguments or configuration, 3 the run failed
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("PRIMUS_LOG_LEVEL", "").upper() == "DEBUG"
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.OK
    except Exception as error:  # the one place where any failure becomes a screen
        if debug:
            raise
        from primus_core.cli.screen import error_screen

        sys.stderr.write(error_screen(error))
        return error.exit_code if isinstance(error, PrimusError) else ExitCode.RUNTIME


def _dispatch(arguments: list[str]) -> int:
    options = _global_options(arguments)
    rest = arguments[len(options) :]
    if "--version" in options:
        print(f"primus {__version__}")
        return ExitCode.OK
    if not rest or "--help" in options or "-h" in options:
        print(_USAGE.format(commands="\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())), end="")
        return ExitCode.OK if options else ExitCode.USAGE
    passed_on = [option for option in options if option in ("--dry-run", "--debug")]
    return find_command(rest[0])([*passed_on, *rest[1:]], os.environ)


def _global_options(arguments: Sequence[str]) -> list[str]:
    """The options before the command's name."""
    count = next((n for n, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    return list(arguments[:count])


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
