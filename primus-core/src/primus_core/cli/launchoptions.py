"""How and where ranks are started, and in which environment: options of `direct` and of what stands behind it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence

from primus_core.errors import ConfigError
from primus_core.outcome import Finding
from primus_core.planning.envfile import read_env_file

_FEW = 12
_DEFAULTS = "--launcher-config"
"""On `direct`, where it cannot be taken for the experiment, the option is `--config`."""


_OWN = ("section_", "output_script")
"""How the names of options begin that a mode reads itself."""


class _Env(argparse.Action):
    """``--env KEY=VALUE`` and ``--env KEY`` set variables; any other word is the path of an env file."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: object = None
    ) -> None:
        word = str(values)
        kind = "env" if "=" in word or word.isidentifier() else "env_file"
        setattr(namespace, kind, [*getattr(namespace, kind), word])


def add_launch_options(parser: argparse.ArgumentParser, *, defaults: str = _DEFAULTS) -> None:
    """Add them; a command that has them all gives `words_of` to another one that has them too."""
    add = parser.add_argument
    add("--nproc", type=int, metavar="N", help="ranks on each node")
    add("--hosts", metavar="A,B", help="hosts of the launcher ssh, [user@]name[:port] each")
    add("--hostfile", metavar="FILE", help="file with one host a line, for the launcher ssh")
    add("--single", action="store_true", help="one rank, started by python itself instead of torchrun")
    _add_env(parser)
    about = "source this bash script before the start; its exports reach the ranks, 0: done, 2: skipped; repeatable"
    add("--patch", action="append", default=[], metavar="SCRIPT", help=about)
    add("--log_file", metavar="PATH", help="write a copy of the console there, a file for each node")
    about = "bind each rank to the CPUs and memory near its accelerator, or to its share of the cores (numactl)"
    add("--numa", action="store_const", const="on", dest="numa", help=about)
    add("--no-numa", action="store_const", const="off", dest="numa", help="do not, whatever the files say")
    add("--silent", action="store_true", help="print warnings and errors only")
    _add_level_options(parser, defaults)
    parser.set_defaults(mode=None, sections={}, exported={})


def add_mode_options(parser: argparse.ArgumentParser) -> None:
    """The options that every mode has beside its own ones."""
    _add_env(parser)
    _add_level_options(parser, "--config")


def _add_env(parser: argparse.ArgumentParser) -> None:
    about = "set a variable of the ranks, or KEY alone: take it from the shell; a FILE is an env file; repeatable"
    parser.add_argument("--env", action=_Env, default=[], metavar="KEY=VALUE|FILE", help=about)
    about = "set the variables of a file of KEY=VALUE lines; repeatable, and weaker than --env KEY=VALUE"
    parser.add_argument("--env_file", action="append", default=[], metavar="FILE", help=about)


def _add_level_options(parser: argparse.ArgumentParser, defaults: str) -> None:
    add = parser.add_argument
    about = "defaults for launchers (YAML); stronger than ~/.primus.yaml, weaker than the experiment"
    add(defaults, dest="launcher_config", metavar="FILE", help=about)
    if defaults != _DEFAULTS:  # for the words that a mode before this one gives
        add(_DEFAULTS, dest="launcher_config", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add("--dry-run", action="store_true", help="check, print the commands that would run, write nothing")
    add("--debug", action="store_true", help="show tracebacks; PRIMUS_LOG_LEVEL=DEBUG for the ranks")


def words_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    """The words that give another command the same options as these arguments; a mode's own are not for a command."""
    known = [one for one in parser._actions if one.option_strings and not one.dest.startswith(_OWN)]
    return [word for action in known for word in _words(action, args)]


def _words(action: argparse.Action, args: argparse.Namespace) -> Iterator[str]:
    value = getattr(args, action.dest, None)
    option = _DEFAULTS if action.dest == "launcher_config" else action.option_strings[0]
    if value in (None, False, action.default) or action.default == argparse.SUPPRESS:
        return
    if isinstance(action, argparse._StoreConstAction):
        yield from [option] * (value == action.const)
    else:
        yield from (f"{option}={one}" for one in (value if isinstance(value, list) else [value]))


def asked_env(args: argparse.Namespace, shell: Mapping[str, str]) -> dict[str, str]:
    """The variables of env files in their order, and of ``--env`` on top.

    Raises:
        ConfigError: a file cannot be read or has a wrong line; or as `parse_env`.
    """
    values: dict[str, str] = {}
    for path in args.env_file:
        values.update(read_env_file(path, shell).values)
    level = {"PRIMUS_LOG_LEVEL": "DEBUG"} if args.debug else {}
    return {**level, **values, **parse_env(args.env, shell)}


def kept_references(args: argparse.Namespace, shell: Mapping[str, str]) -> tuple[Finding, ...]:
    """What to tell of values in env files that look like references to variables, and are text."""
    places = [place for path in args.env_file for place in read_env_file(path, shell).references]
    if not places:
        return ()
    return (
        Finding(
            check="env_file.reference",
            severity="warning",
            summary="a $ in an env file is a $: variables are not put in",
            evidence=", ".join(places[:_FEW]) + (f" and {len(places) - _FEW} more" if len(places) > _FEW else ""),
            remedy="Quote the value with ' if that is meant, or compute it in a script for --patch.",
            where=places[0],
        ),
    )


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
            file = f", or ./{name} if the file is meant" if os.path.exists(name) else ""
            remedy = f"--env {name}=VALUE, or export it first{file}"
            raise ConfigError(f"--env {name}: not set in this shell", remedy=remedy)
        env[name] = value if given else shell[name]
    return env
