"""The options of Slurm's ``srun`` and ``sbatch``: read in every spelling, merged, and written in one.

Options are kept by their long name, without dashes. A value is text; True where there is none; a number for what
counts how often it is given (``-vv``). Options that this version does not know pass as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from attrs import field

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.records import frozen

Command = Literal["srun", "sbatch"]

OWN_KEYS = frozenset(("mode", "inside", "output_script", "master_addr", "master_port", "node_rank", "lost_seconds"))
"""Keys of the section ``slurm:`` that are Primus's own."""
_COUNTED = ("verbose",)
_GPUS = "gpu"


@frozen(kw_only=True)
class Option:
    """One row of ``slurm_options.json``."""

    name: str
    short: str = ""
    command: str = ""
    """``srun`` or ``sbatch`` where the other one does not know it; it is for the step, or for the job alone."""
    argument: str = "one"
    """``one``, ``optional`` (only ever behind ``=`` or the letter), or ``none``."""
    arguments: Mapping[str, str] = field(factory=dict)
    """By command, where they differ."""
    family: str = ""
    """Options of one family exclude each other."""
    same_as: str = ""
    refused: str = ""
    """Why Primus cannot do with it."""
    refused_by: str = ""
    """The command for which it cannot; empty: for both."""

    def takes(self, command: Command) -> str:
        return self.arguments.get(command, self.argument)

    def is_of(self, command: Command) -> bool:
        return self.command in ("", command)

    def is_refused(self, command: Command) -> bool:
        return bool(self.refused) and self.refused_by in ("", command)


@cache
def options() -> Mapping[str, Option]:
    """The table, by long name."""
    text = (Path(__file__).parent.parent / "slurm_options.json").read_text(encoding="utf-8")
    return {name: Option(name=name, **row) for name, row in json.loads(text).items()}


def canonical(key: str) -> str:
    """The long name for a key of the YAML: ``N``, ``nodes``, ``gpus_per_node``."""
    if key in OWN_KEYS:
        return key
    if len(key) == 1:
        return next((one.name for one in options().values() if one.short == key), f"-{key}")
    name = key.lstrip("-").replace("_", "-")
    found = options().get(name)
    return (found.same_as or found.name) if found else name


def read_flags(words: Sequence[str], command: Command) -> dict[str, Value]:
    """The options on a command line: ``-N 4``, ``-N4``, ``--nodes=4``, ``--nodes 4``, ``--nod 4``.

    Raises:
        ConfigError: a word belongs to no option, a value is missing, or the command has no such option, or one that
            Primus cannot do with.
    """
    found: dict[str, Value] = {}
    todo = list(words)
    while todo:
        word = todo.pop(0)
        for name, value in _read(word, todo, command):
            _check(name, value, command)
            counts = name in _COUNTED
            found[name] = _count(found.get(name)) + 1 if counts else value
    return found


def merge_flags(weaker: Mapping[str, Value], stronger: Mapping[str, Value]) -> dict[str, Value]:
    """Both together: of one option the stronger value, and of options that exclude each other the stronger one."""
    families = {family for name, value in stronger.items() if (family := _family(name, value))}
    kept = {name: value for name, value in weaker.items() if _family(name, value) not in families}
    return {**kept, **stronger}


def to_words(flags: Mapping[str, Value], command: Command) -> tuple[str, ...]:
    """The words for a command, one for each option. Own keys and what the other command alone knows are left out."""
    return tuple(word for key, value in flags.items() if key not in OWN_KEYS for word in _words(key, value, command))


def step_words(flags: Mapping[str, Value]) -> tuple[str, ...]:
    """The words for an srun inside of a job: options that only srun has."""
    table = options()
    own = {key: value for key, value in flags.items() if key in table and table[key].command == "srun"}
    return to_words({key: value for key, value in own.items() if key not in ("immediate", "jobid")}, "srun")


def nodes_of(flags: Mapping[str, Value]) -> int | None:
    """The number of nodes; None where none is set.

    Raises:
        ConfigError: it is a range, or no number.
    """
    return _number(flags, "nodes", "a plan is made for one number of nodes")


def gpus_per_node_of(flags: Mapping[str, Value], nodes: int) -> int | None:
    """The GPUs of each node as the job asks for them; None where it does not.

    Raises:
        ConfigError: the number is none, or the GPUs are not a multiple of the nodes.
    """
    if "gpus-per-node" in flags:
        return _gpus("gpus-per-node", str(flags["gpus-per-node"]))
    for request in str(flags.get("gres", "")).split(","):
        kind, *rest = request.removeprefix("gres/").removeprefix("gres:").split(":")
        if kind == _GPUS:
            return _gpus("gres", ":".join(rest) or "1")
    if "gpus-per-task" in flags:  # one task on each node
        return _gpus("gpus-per-task", str(flags["gpus-per-task"]))
    if "gpus" not in flags:
        return None
    total = _gpus("gpus", str(flags["gpus"]))
    if total % nodes:
        raise ConfigError(
            f"--gpus={total} on {nodes} nodes",
            why="every node has the same number of ranks",
            remedy="ask with --gpus-per-node",
        )
    return total // nodes


def _read(word: str, todo: list[str], command: Command) -> Iterator[tuple[str, Value]]:
    """The options of one word, which may take the next one for a value."""
    if word.startswith("--") and len(word) > 2:
        yield _read_long(word, todo, command)
    elif word.startswith("-") and len(word) > 1:
        yield from _read_short(word[1:], todo, command)
    else:
        raise ConfigError(
            f"{word!r} belongs to no option of {command}",
            why="the command comes after `--`" if word != ":" else "every node has the same ranks",
            remedy=f"primus slurm {command} -N 2 -- train pretrain --config exp.yaml",
        )


def _read_long(word: str, todo: list[str], command: Command) -> tuple[str, Value]:
    given, equals, value = word[2:].partition("=")
    option = _of_name(given)
    if option is None:
        return given, value if equals else _next_value(todo)
    takes = option.takes(command)
    name = option.same_as or option.name
    if equals or takes != "one":
        return name, value if equals else True
    if not todo:
        raise _no_value(f"--{given}")
    return name, todo.pop(0)


def _read_short(letters: str, todo: list[str], command: Command) -> Iterator[tuple[str, Value]]:
    """``-N4`` is one option; ``-lN4`` are two, since ``-l`` takes no value."""
    while letters:
        letter, letters = letters[0], letters[1:]
        option = _of_letter(letter, command)
        if option is None:
            yield f"-{letter}", letters or _next_value(todo)
            return
        takes = option.takes(command)
        if takes == "none":
            yield option.name, True
            continue
        if takes == "one" and not (letters or todo):
            raise _no_value(f"-{letter}")
        yield option.name, letters or (todo.pop(0) if takes == "one" else True)
        return


def _next_value(todo: list[str]) -> Value:
    """What stands behind an option that is not known: no word but a value can."""
    return todo.pop(0) if todo and not todo[0].startswith("-") else True


def _of_name(given: str) -> Option | None:
    """As getopt: a beginning is enough when no other option has it."""
    table = options()
    fitting = [given] if given in table else [name for name in table if name.startswith(given)]
    return table[fitting[0]] if len(fitting) == 1 else None


def _of_letter(letter: str, command: Command) -> Option | None:
    having = [one for one in options().values() if one.short == letter]
    return next((one for one in having if one.is_of(command)), having[0] if having else None)


def _check(name: str, value: Value, command: Command) -> None:
    option = options().get(name)
    if option is None:
        return
    if option.is_refused(command):
        raise ConfigError(f"--{name} is not for primus slurm {command}", why=option.refused, remedy="leave it out")
    if option.command == "sbatch" and command == "srun":
        raise ConfigError(f"--{name} is an option of sbatch", remedy="primus slurm sbatch ..., or leave it out")
    if value == "":
        raise _no_value(f"--{name}")


def _no_value(option: str) -> ConfigError:
    return ConfigError(f"{option} has no value", remedy=f"write one behind it, or leave {option} out")


def _family(name: str, value: Value) -> str:
    option = options().get(name)
    if option is None or (name == "gres" and _GPUS not in str(value)):
        return ""
    return option.family


def _words(name: str, value: Value, command: Command) -> Iterator[str]:
    option = options().get(name)
    if option is not None and (not option.is_of(command) or option.is_refused(command)):
        return
    takes = option.takes(command) if option else "optional"
    flag = f"--{name}" if not name.startswith("-") else name
    if value is None or value is False:
        if value is False and name == "requeue":
            yield "--no-requeue"
    elif name in _COUNTED:
        yield from [flag] * _count(value)
    elif takes == "none" or (value is True and takes == "optional"):
        yield flag
    elif not flag.startswith("--"):
        yield f"{flag}{_text(value)}"
    else:
        yield f"{flag}={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _number(flags: Mapping[str, Value], name: str, why: str) -> int | None:
    if (value := flags.get(name)) is None:
        return None
    text = str(value)
    low, _, high = text.partition("-")
    exact = low if high in ("", low) and text.count("-") == bool(high) else ""
    if exact.isascii() and exact.isdecimal() and int(exact) > 0:
        return int(exact)
    raise ConfigError(f"--{name}={text}: no number of {name}", why=why, remedy=f"give one number: --{name}=4")


def _gpus(name: str, text: str) -> int:
    """``8``, ``mi300x:8``, ``4(S:0-1)``."""
    _, colon, number = text.partition("(")[0].rpartition(":")
    if number.isascii() and number.isdecimal() and int(number) > 0:
        return int(number)
    if not colon and name == "gres":
        return 1  # gpu:mi300x
    raise ConfigError(f"--{name}={text}: no number of GPUs", remedy="write 8, or mi300x:8")
