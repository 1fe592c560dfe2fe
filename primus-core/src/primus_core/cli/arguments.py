"""The arguments that every command which plans a run understands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn

from primus_core.cli.launchoptions import add_launch_options
from primus_core.errors import ConfigError, ErrorGroup, PrimusError
from primus_core.parameters import nearest

_NUMBER = re.compile(r"-[.0-9]")
"""How a value begins that is no option, though it begins with a dash."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one of our errors (exit 2, with a remedy).

    Each option may be written with ``-`` or ``_`` between its words. Where the parser takes overrides, ``--key value``
    and ``--key=value`` are ``key=value``, unless it has an option ``--key``.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._option_string_actions.update(self.options)
        return super().parse_known_args(args, namespace)

    def parse_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if any(action.dest in ("overrides", "words") for action in self._actions):
            words = self._plain(iter(words))
        return super().parse_intermixed_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        # overrides may be left out, whatever argparse says of words that are parsed between options
        what = message.replace(", key=value", "")
        meant = self._meant(message) if message.startswith("unrecognized arguments: ") else None
        guess = f"did you mean {meant}? " if meant else ""
        raise ConfigError(what, remedy=f"{guess}`{self.prog} --help` lists the arguments")

    @property
    def options(self) -> Mapping[str, argparse.Action]:
        """By each of their spellings."""
        return {spelling: action for action in self._actions for spelling in _spellings(action)}

    @property
    def option_names(self) -> list[str]:
        """The spellings that help shows; argparse has no public list of its actions."""
        shown = (action for action in self._actions if action.help != argparse.SUPPRESS)
        return [name for action in shown for name in action.option_strings]

    def hide(self, destinations: Sequence[str]) -> None:
        """Take options without effect on this command, which a mode before it may have, but list them nowhere."""
        for action in self._actions:
            if action.dest in destinations:
                action.help = argparse.SUPPRESS

    def _meant(self, message: str) -> str | None:
        found = (nearest(word, self.option_names) for word in message.split() if word.startswith("--"))
        return next(filter(None, found), None)

    def _plain(self, words: Iterator[str]) -> list[str]:
        """The words, with every override as ``key=value``; those from an option on are last, in their order."""
        options = self.options
        plain: list[str] = []
        last: list[str] = []
        for word in words:
            key, given, value = word.partition("=")
            if key in options:
                takes_next = not given and options[key].nargs is None
                plain += [word, *islice(words, int(takes_next))]
            elif word == "--":
                plain += [word, *words]
            elif key.startswith("--"):
                last.append(f"{key_of(key)}={value if given else self._value(key, next(words, None))}")
            else:
                (last if last and given else plain).append(word)
        return [*plain, *last]

    def _value(self, option: str, word: str | None) -> str:
        """The word after an override ``--key``."""
        if word is not None and (not word.startswith("-") or _NUMBER.match(word)):
            return word
        meant = nearest(option, self.option_names)
        raise ConfigError(
            f"{option} has no value",
            why=f"it is no option of `{self.prog}`, so it sets a parameter",
            remedy=f"did you mean {meant}?" if meant else f"write {option}=true, or what it shall be",
        )


def _spellings(action: argparse.Action) -> list[str]:
    """``--dry-run`` and ``--dry_run``."""
    names = [name for name in action.option_strings if name.startswith("--")]
    other = [f"--{re.sub('[-_]', sign, name[2:])}" for name in names for sign in "-_"]
    return list(dict.fromkeys([*action.option_strings, *other]))


def key_of(option: str) -> str:
    """The parameter that ``--some-key`` sets; the names of modules keep their dashes."""
    key = option.removeprefix("--")
    return key if key.startswith("modules.") else key.replace("-", "_")


def name_options(error: Exception, arguments: Sequence[str], options: Sequence[str] = ()) -> Exception:
    """The error, with the options that were meant where unknown parameters were written like ones: ``--nprocs 2``.

    Args:
        options: that the command has; those of a run unless told.
    """
    if isinstance(error, ErrorGroup):
        return ErrorGroup([name_option(one, arguments, options) for one in error.errors])
    return name_option(error, arguments, options) if isinstance(error, PrimusError) else error


def name_option(error: PrimusError, arguments: Sequence[str], options: Sequence[str] = ()) -> PrimusError:
    """As `name_options`, for one error."""
    written = {key_of(word.partition("=")[0]): word.partition("=")[0] for word in arguments if word.startswith("--")}
    name = error.what.partition("`")[2].partition("`")[0]
    if not (isinstance(error, ConfigError) and error.what.startswith("unknown ") and name in written):
        return error
    meant = nearest(written[name], options or run_parser("primus", "").option_names)
    if meant is None:
        return error
    other = f" As a parameter, {error.remedy}" if error.remedy.startswith("did you mean") else ""
    return ConfigError(error.what, where=error.where, why=error.why, remedy=f"did you mean {meant}?{other}")


def run_parser(prog: str, description: str) -> Parser:
    """Parser of ``EXPERIMENT [key=value ...]`` and the options of a run."""
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("experiment", help="experiment file (YAML)")
    add_run_options(parser)
    return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="set a parameter for this run; also --key value"
    )
    add_framework(parser)
    about = "direct (torchrun), ssh, container, slurm or single; default: direct if installed"
    parser.add_argument("--launcher", metavar="NAME", help=about)
    add_launch_options(parser)
    parser.add_argument("--preset-path", action="append", default=[], metavar="DIR", help="look for presets here too")
    parser.add_argument("--run-id", metavar="ID", help="name of the run; default: start time and a random part")
    parser.add_argument("--strict", action="store_true", help="a setting that has no effect is an error")
    checks = parser.add_mutually_exclusive_group()
    checks.add_argument("--skip-preflight", action="store_true", help="leave out the checks of preflight plugins")
    checks.add_argument(
        "--preflight", choices=("on", "strict"), default="on", help="strict: a warning of a check is an error"
    )
    parser.add_argument(
        "--allow-patch-drift", action="append", default=[], metavar="ID", help="apply this patch to a changed target"
    )


def add_framework(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--framework", metavar="F", help="train with this back end; the same as framework=F")
