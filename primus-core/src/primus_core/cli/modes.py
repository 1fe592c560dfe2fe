"""Modes: what stands before a command and says how its ranks are started.

``slurm srun -N 2 -- container --image X -- direct --numa -- train pretrain --config exp.yaml``: each mode has options,
``--``, and then a mode that may stand inside of it, or a command. The command at the end makes one plan for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from attrs import evolve, field

from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode
from primus_core.experiment import Leaf, Origin, Sections, Value
from primus_core.records import frozen

STARTS = ("train", "run", "plan", "projection")
"""Commands that a mode can start, or tell what it would be like."""
_ORDER = ("slurm", "container", "direct")
"""A mode may stand inside of those before it."""
_SCRIPT = "--script"


@frozen(kw_only=True)
class Mode:
    """The modes before a command, put together."""

    launcher: str = ""
    """The outermost one, which starts the ranks; empty: none yet."""
    inside: str = ""
    """What stands inside of `slurm` on each node; empty: nothing is said."""
    words: tuple[str, ...] = ()
    """The modes with those options that are in ``sections``, as on a command line, each with its ``--``."""
    sections: Sections = field(factory=dict)
    """The launchers' options of the command line."""
    options: tuple[str, ...] = ()
    """The other ones, in the words of a command: ``--debug``, ``--env=A=b``."""

    def within(self, name: str, words: Sequence[str], leaves: Mapping[str, Leaf], options: Sequence[str]) -> Mode:
        """This one, with another inside of it."""
        return evolve(
            self,
            launcher=self.launcher or name,
            inside=_inner(self, name),
            words=(*self.words, name, *words, "--"),
            sections={**self.sections, **({name: leaves} if leaves else {})},
            options=(*self.options, *options),
        )


StartCommand = Callable[[Sequence[str], Mapping[str, str], "Mode | None"], int]


def _inner(outer: Mode, name: str) -> str:
    """Inside of Slurm, the container has the word, whatever is in it."""
    if outer.launcher != "slurm":
        return ""
    return outer.inside if outer.inside == "container" else name


def asked(value: Value) -> Leaf:
    """An option as the command line says it."""
    return Leaf(value=value, origin=Origin(file="command line", layer="command line"))


def split(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before the first ``--`` and those behind it; None where there is none."""
    words = list(argv)
    if "--" not in words:
        return words, None
    index = words.index("--")
    return words[:index], words[index + 1 :]


def enter(name: str, after: Sequence[str] | None, env: Mapping[str, str], mode: Mode) -> int:
    """What stands behind a mode's ``--``: another mode, or the command; returns the exit code.

    Args:
        name: of the innermost mode so far.

    Raises:
        ConfigError: it is neither, or nothing.
    """
    if not after:
        why = "it comes after `--`"
        raise ConfigError("no command", why=why, remedy=f"primus {name} ... -- train pretrain --config exp.yaml")
    word, *words = after
    if word in ("-h", "--help"):
        say(usage_inside(name))
        return ExitCode.OK
    if word in _ORDER[_ORDER.index(name) + 1 :]:
        return cast(StartCommand, import_module(f"primus_core.cli.{word}").main)(words, env, mode)
    return start_command(name, word, words, env, mode)


def start_command(name: str, command: str, words: Sequence[str], env: Mapping[str, str], mode: Mode | None) -> int:
    """Run a command with the options of the modes before it; returns the exit code.

    Args:
        name: of the mode.
        mode: None for `direct` alone, whose options all are words of the command.

    Raises:
        ConfigError: there is no such command, or a mode cannot start it.
    """
    from primus_core.cli.main import PACKAGES, find_command  # here: it calls the modes
    from primus_core.parameters import nearest

    if command in STARTS:
        module = import_module(f"primus_core.cli.{command}")
        return cast(StartCommand, module.main)([*(mode.options if mode else ()), *words], env, mode)
    if command in PACKAGES:
        started = cast(StartCommand, find_command(command))
        return started([*(mode.options if mode else ()), *words], env, mode)
    if command == _SCRIPT or command in _ORDER:
        raise _misplaced(name, command)
    known = (*STARTS, *PACKAGES)
    meant = nearest(command, known)
    guess = f"did you mean {meant}?" if meant else f"one of {', '.join(known)}"
    raise ConfigError(f"`{name}` cannot start {command!r}", remedy=guess)


def usage_inside(name: str) -> str:
    """What may stand behind a mode's ``--``."""
    from primus_core.cli.main import COMMANDS, PACKAGES, usage_of  # here: it calls the modes

    inner = {mode: COMMANDS[mode] for mode in _ORDER[_ORDER.index(name) + 1 :]}
    modes = f"modes:\n{usage_of(inner)}\n\n" if inner else ""
    own = {command: COMMANDS[command] for command in STARTS}
    commands = usage_of({**own, **{command: f"of the package {package}" for command, package in PACKAGES.items()}})
    return (
        f"usage: primus {name} [options] -- COMMAND ...\n\n{modes}commands:\n{commands}\n\n"
        f"`primus {name} -- COMMAND --help` explains a command, `primus {name} --help` the options."
    )


def _misplaced(name: str, word: str) -> ConfigError:
    if word == _SCRIPT:
        remedy = f"primus {name} ... -- direct --script PATH -- ARGUMENT ..."
        return ConfigError("--script stands behind `--`", why="it is an option of `direct`", remedy=remedy)
    why = f"the order is {', '.join(_ORDER)}: a scheduler starts containers, and a container ranks"
    return ConfigError(f"`{word}` stands inside of `{name}`", why=why, remedy=f"leave `{word}` out, or put it before")
