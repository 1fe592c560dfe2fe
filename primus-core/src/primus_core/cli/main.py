"""The front door: finds the command, imports it, and turns an error into one screen and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import cast

from primus_core import __version__
from primus_core.cli.encoding import use_utf8
from primus_core.cli.output import say
from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError

Command = Callable[[Sequence[str], Mapping[str, str]], int]

COMMANDS = {
    "run": "train a model from an experiment file",
    "compare": "two runs side by side: experiment, loss, speed, memory; --output DIR adds charts",
    "config": "know what an experiment file means: show, explain, translate, diff, validate, schema, init",
    "data": "`data inspect PREFIX` or `data tokenize INPUT... --output PREFIX`, token files",
    "plan": "write the plan of a run without starting it",
    "projection": "`projection memory --config exp.yaml --gpu mi300x`: will it fit, where not, and what to change",
    "logs": "what the ranks of a run logged, merged by time; --follow, --rank, --level, --since, --grep",
    "start": "`start PLAN`, carry out a plan that exists; what job scripts call",
    "status": "where a run stands: pending, running, requeued, completed, failed ...; by run id or job number",
    "cancel": "end a run, also one that waits in a scheduler's queue",
    "patches": "list what a run would patch in the library's code, and why",
    "report": "what became of a run; of one that failed: the first failing rank, host, phase, cause, remedy",
    "checkpoint": "`checkpoint list RUN`, or `checkpoint export RUN --to hf --output DIR`, weights for others",
    "plugins": "list the installed plugins",
    "train": "`train pretrain --config exp.yaml`, the same as `run exp.yaml`",
    "direct": "`direct [options] -- COMMAND`, on this host with torchrun; --script runs a program of your own",
    "container": "`container [options] -- COMMAND`, on this host in a container of podman or docker",
    "slurm": "`slurm [srun|sbatch] [their options] -- COMMAND`, on nodes that Slurm gives",
}
PACKAGES = {"benchmark": "primus-preflight", "preflight": "primus-preflight"}
"""Commands of the reference that other packages bring, and which."""

_USAGE = """\
usage: primus [--config FILE] [--debug] [--dry-run] [--version] COMMAND ...

One experiment file becomes a training run.

commands:
{commands}

options:
  --config F  defaults for launchers (YAML); `primus config launcher` shows what counts
  --dry-run   check everything, print the commands that would run, write nothing
  --debug     show tracebacks, log in detail
  --version   print the version
  -h, --help  print this; `primus COMMAND --help` explains a command

exit codes: 0 success, 1 missing or broken dependency, 2 wrong arguments or configuration, 3 the run failed,
            128 + number of the signal that ended it"""

_GARBAGE = 50_000
"""Objects that may be made between two looks for garbage; Python's own number is 700."""
_CONFIG, _LAUNCHER_CONFIG = "--config=", "--launcher-config="
_RUNS = ("train", "run", "plan", "projection", "preflight")
"""Commands whose own --config is the experiment."""
_OPTIONS = ("--debug", "--dry-run", "--version", "--help", "-h")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    if argv is None:
        use_utf8()
        collect_seldom()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the one place where any failure becomes a screen
        return _fail(error, arguments, debug="--debug" in arguments or _log_level() == "DEBUG")


def collect_seldom() -> None:
    """Let Python look for garbage in cycles less often: reading an experiment makes thousands of objects that stay."""
    gc.set_threshold(_GARBAGE)


def _fail(error: Exception, arguments: Sequence[str], *, debug: bool) -> int:
    from primus_core.cli.arguments import name_options
    from primus_core.cli.output import assignments, complain
    from primus_core.cli.screen import error_screen

    env = {**os.environ, **assignments(arguments)}
    if debug:
        import traceback  # here: dear, and seldom wanted

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
    given = sorted(word.replace(_CONFIG, _LAUNCHER_CONFIG, 1) if rest[0] in _RUNS else word for word in options)
    return find_command(rest[0])([*given, *rest[1:]], os.environ)


def _split(arguments: list[str]) -> tuple[set[str], list[str]]:
    """The options before the command's name, and the rest; ``--config=FILE`` is one word of the options."""
    options: set[str] = set()
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word, given, value = rest.pop(0).partition("=")
        if word == "--config" and (given or rest):
            options.add(f"--config={value if given else rest.pop(0)}")
        elif (known := word.replace("_", "-")) in _OPTIONS and not given:
            options.add(known)
        else:
            known = ", ".join(("--config FILE", *_OPTIONS))
            raise ConfigError(f"no option {word!r} before the command", remedy=f"known: {known}")
    return options, rest


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
    if name in PACKAGES:
        return partial(_not_installed, name)
    guess = nearest(name, [*COMMANDS, *PACKAGES, *known])
    remedy = f"did you mean `primus {guess}`?" if guess else "`primus --help` lists the commands"
    raise ConfigError(f"no command {name!r}", remedy=remedy)


def _not_installed(name: str, argv: Sequence[str], env: Mapping[str, str], mode: object = None) -> int:
    """A command that a package brings which is not here, or is older than the command."""
    why = f"it comes with the package {PACKAGES[name]}, which is missing here or has no such command in this version"
    remedy = f"pip install --upgrade {PACKAGES[name]}"
    if {"-h", "--help"} & set(argv):
        say(f"usage: primus {name} ...\n\nnot installed: {why}\nto install it: {remedy}")
        return ExitCode.OK
    raise DependencyError(f"the command {name!r} is not installed", why=why, remedy=remedy)


if __name__ == "__main__":
    sys.exit(main())
