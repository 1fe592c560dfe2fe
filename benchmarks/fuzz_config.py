"""Mutated experiment files, command lines and variables: `python benchmarks/fuzz_config.py [--count N] [--seed N]`.

Each input is resolved beside pipes, devices, loops of links, folders and files in other encodings, which its names may
hit. It has to give an experiment, or a configuration error with a place and a remedy. Of an experiment, every leaf has
an origin, typing it raises nothing but configuration errors, and its dump resolves to the same experiment. Ends at the
first input with a traceback, over a second of CPU or no end, and where memory grows by more than 200 MB. One seed gives
the same inputs; a failure prints the input's number, and `--only NUMBER` runs that one alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import get_args

from attrs import define, field, frozen

from primus_core.errors import ConfigError, ErrorGroup, PrimusError
from primus_core.experiment import Experiment, Leaf, Value
from primus_core.parameters import Parameter, Type, check, coerce
from primus_core.planning.settings import core_schema
from primus_core.resolve import resolve
from primus_core.screens import problem_lines
from primus_core.yamlfile import dump_experiment

SECONDS = 1.0
"""CPU time that one input may take."""
MEGABYTES = 200.0
"""Growth of the largest resident size since the first inputs."""
_SCREEN = 10_000
"""Characters of errors that are read."""
_LARGEST = 1 << 20
"""Bytes of a configuration file that is read."""
_PATIENCE = 10.0
"""Seconds after which an input that takes no CPU time hangs."""

_NAMES = "work_group: team\nuser_name: ${USER:me}\nexp_name: first\nworkspace: ./out\n"
_MODULE = "modules:\n  pre_trainer:\n    framework: megatron\n    config: trainer.yaml\n    model: tiny.yaml\n"
_ALL = f"{_NAMES}{_MODULE}    overrides:\n"
SEEDS = (
    f"{_ALL}      lr: 1e-5\n      flag: ${{FLAG:0}}\n      data: [a, 0123, 'x y']\n",
    f"extends: base.yaml\n{_NAMES}{_MODULE}    overrides: {{a.b: 1, a: {{c: null}}, time: 8:00:00}}\n",
    "extends: [base.yaml, more.yaml]\n"
    "env: {A: '${B:${C:c}}', D: '$${E}'}\nmodules: {pre_trainer: {model: tiny.yaml}}\n",
    f"x: &x {{k: 1}}\n{_NAMES}{_MODULE}    overrides: {{<<: *x, rope: !unset , hidden_size: 1_000}}\n",
    f"{_ALL}      text: |\n        two\n        lines\n      other: >-\n        folded\n        text\n",
    f"slurm: {{time: 12:00:00}}\ndirect:\n  gpus_per_node: 8\nplatform: {{name: é日本}}\n{_ALL}",
)
TOKENS = (
    *("&a ", "*a", "<<: *a", "!!int ", "!!python/object:os.system ", "!unset", "- ", "? ", ": ", "# ", "---\n"),
    *(
        "...\n",
        "${",
        "}",
        "${A",
        "${A:",
        "${A:-",
        "$${",
        "${BIG}",
        "${EMPTY}",
        "${BYTES}",
        "${LIST}",
        "${A:=b}",
        "[",
        "]",
    ),
    *(
        "\t",
        "\r\n",
        "\r",
        "\0",
        "\x1b",
        "\x85",
        "\u2028",
        "\ufeff",
        "\u00a0",
        "é",
        "😀",
        '"\\ud800"',
        '"\\0"',
        "'",
        "{",
    ),
    *("0123", "1e999", ".inf", ".nan", "-.5", "1_000", "0x1F", "9" * 400, "1e-5", "null", "tRUE", "~", "true", "off"),
    *(
        "modules: ",
        "pre_trainer: ",
        "overrides: ",
        "env: ",
        "extends: ",
        "a.b.c.d.e.f.g.h.i.j: 1\n",
        "a: {b: {c: 1}}\n",
    ),
    *("\n", "      ", " "),
)
FILES = (
    *("fifo.yaml", "zero.yaml", "loop.yaml", "folder.yaml", "utf16.yaml", "crlf.yaml", "binary.yaml", "self.yaml"),
    *(
        "exp.yaml",
        "../exp.yaml",
        "/dev/stdin",
        "/proc/self/mem",
        "bomb.yaml",
        "deep.yaml",
        "tall.yaml",
        "base.yaml",
        "tiny.yaml",
    ),
)
KEYS = ("lr", "rope", "rope.base", "env.A", "exp_name", "model", "modules.pre_trainer.overrides.x", "a.b", "direct.n")
VALUES: tuple[Value, ...] = (
    *(None, True, 0, -1, 10**40, 1e-5, 1e300),
    *("", "0123", "True", "1e5", "null", "a\nb", "é日本", " x ", "${A}", "$${A}", "!unset"),
)
ENV = {
    "FLAG": "off",
    "BIG": "x" * 100_000,
    "EMPTY": "",
    "BYTES": "\udcff",
    "LIST": "[1, [2, {a: 0123}]]",
    "A": "${A}",
}
_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


_TOWER = "a0: &a0 [[[[x]]]]\n" + "".join(f"a{n}: &a{n} {'[' * 20}*a{n - 1}{']' * 20}\n" for n in range(1, 60))


class Failure(Exception):
    """An input that shows a fault of the reader."""


@frozen
class Case:
    """One input."""

    content: bytes
    words: tuple[str, ...] = ()


@define
class Tally:
    """What came of all inputs."""

    outcomes: Counter[str] = field(factory=Counter)
    slowest: float = 0.0
    """Seconds of CPU."""
    growth: float = 0.0
    """Megabytes."""


def surroundings(folder: Path) -> None:
    """The files that an experiment's names may hit."""
    texts = {
        "base.yaml": f"{_NAMES}{_MODULE}    overrides: {{lr: 5, rope: {{base: 1}}, data: [z]}}\nenv: {{B: b}}\n",
        "more.yaml": "exp_name: more\nmodules: {pre_trainer: {overrides: {seed: 1}}}\n",
        "trainer.yaml": "lr: 1\nrope: {base: 2, scale: 3}\n",
        "tiny.yaml": "extends: crlf.yaml\nhidden_size: 128\n",
        "tall.yaml": _TOWER,
        "self.yaml": "extends: self.yaml\n",
        "bomb.yaml": _BOMB,
        "deep.yaml": f"a: {'[' * 5000}{']' * 5000}\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "crlf.yaml").write_bytes(b"\xef\xbb\xbfnum_layers: 4\r\nname: x\r\n")
    (folder / "utf16.yaml").write_bytes("a: 1\n".encode("utf-16"))
    (folder / "binary.yaml").write_bytes(bytes(range(256)) * 40)
    (folder / "folder.yaml").mkdir()
    os.mkfifo(folder / "fifo.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    (folder / "loop.yaml").symlink_to("loop.yaml")


def case(seed: int, number: int) -> Case:
    """An input by its number."""
    chance = random.Random(seed * 1_000_003 + number)
    text = chance.choice(SEEDS)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        text = chance.choice(_MUTATIONS)(text, chance)
    data = text.encode(chance.choice(("utf-8",) * 40 + ("utf-16", "latin-1", "utf-8-sig")), "replace")
    for _ in range(chance.choice((0,) * 14 + (1, 3))):
        data = _flip(data, chance)
    words = tuple(_word(chance) for _ in range(chance.choice((0, 0, 0, 1, 2))))
    return Case(content=data, words=words)


def _insert(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice((*TOKENS, *FILES)) * chance.choice((1, 1, 1, 2, 40)) + text[at:]


def _other_value(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    lines[at] = f"{lines[at].partition(':')[0]}: {chance.choice(TOKENS)}"
    return "\n".join(lines)


def _other_file(text: str, chance: random.Random) -> str:
    key = chance.choice(("model: ", "config: ", "extends: "))
    begin, found, rest = text.partition(key)
    if not found:
        return f"extends: [{chance.choice(FILES)}, {chance.choice(FILES)}]\n{text}"
    return f"{begin}{found}{chance.choice(FILES)}\n{rest.partition(chr(10))[2]}"


def _delete(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + text[at + chance.choice((1, 2, 10, 50)) :]


def _repeat(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + text[at : at + chance.choice((5, 30, 100))] * chance.choice((2, 3, 50)) + text[at:]


def _cross(text: str, chance: random.Random) -> str:
    other = chance.choice(SEEDS)
    return text[: chance.randint(0, len(text))] + other[chance.randint(0, len(other)) :]


def _add_nested(text: str, chance: random.Random) -> str:
    depth = chance.choice((5, 30, 40, 2000))
    opening, closing = chance.choice((("[", "]"), ("{a: ", "}"), ("${A:", "}"), ("- ", "")))
    return f"{text}      x: {opening * depth}1{closing * depth}\n"


def _add_aliases(text: str, chance: random.Random) -> str:
    wrap = "[" * chance.choice((1, 9, 30))
    lines = [f"      b0: &b0 {chance.choice(('x', '[x, x]', '{k: 1}', 'x' * 10_000))}"]
    for n in range(1, chance.choice((2, 5, 40))):
        items = ", ".join([f"*b{n - 1}"] * chance.choice((1, 1, 2, 9)))
        lines.append(f"      b{n}: &b{n} [{wrap}{items}{wrap.replace('[', ']')}]")
    return text + "\n".join(lines) + "\n"


def _add_tokens(text: str, chance: random.Random) -> str:
    value = chance.choice(TOKENS) + chance.choice(TOKENS)
    quoted = "'" + value.replace("'", "''") + "'"
    return f"{text}      {chance.choice('abcdxyz')}: {chance.choice((value, quoted, quoted))}\n"


def _add_value(text: str, chance: random.Random) -> str:
    return f"{text}      {chance.choice('abcdxyz')}{chance.randrange(50)}: {json.dumps(_value(chance, 3))}\n"


def _value(chance: random.Random, depth: int) -> Value:
    kind = chance.randrange(6 if depth else 4)
    if kind == 5:
        return {chance.choice("abc"): _value(chance, depth - 1) for _ in range(chance.randrange(4))}
    if kind == 4:
        return [_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return chance.choice((*VALUES, chance.choice(TOKENS)))


_MUTATIONS: Sequence[Callable[[str, random.Random], str]] = (
    *(_insert, _other_value, _other_value, _other_file, _delete, _repeat, _cross),
    *(_add_nested, _add_aliases, _add_tokens, _add_tokens, _add_value, _add_value, _add_value),
)


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def _word(chance: random.Random) -> str:
    word = f"{chance.choice(KEYS)}={chance.choice((*TOKENS, *FILES))}{chance.choice(('', '', '1', ', b]', 'x}'))}"
    return word.replace("\0", "") if chance.random() < 0.9 else word.replace("=", chance.choice(TOKENS))


def judge(folder: Path, one: Case) -> str:
    """What became of an input: ``experiment``, or what the error says.

    Raises:
        Failure: neither an experiment nor a configuration error, or an experiment that is wrong.
    """
    (folder / "exp.yaml").write_bytes(one.content)
    try:
        experiment = _resolve(folder, one.words)
    except PrimusError as error:
        return _told(error)
    first = dict(leaves(experiment))
    for key, leaf in first.items():
        _refuse_wrong(key, leaf)
    for module in experiment.modules.values():
        check(module.params, core_schema())
    dump = dump_experiment(experiment).encode()
    if len(dump) > _LARGEST:
        return "experiment with aliases that fill more than a file"
    (folder / "exp.yaml").write_bytes(dump)
    again = dict(leaves(_resolve(folder, ())))
    if first.keys() != again.keys():
        raise Failure(f"the dump has other keys: {first.keys() ^ again.keys()}")
    for key, leaf in first.items():
        if not same(leaf.value, again[key].value):
            raise Failure(f"{key} is {leaf.value!r}, and in the dump {again[key].value!r}")
    return "experiment"


def _resolve(folder: Path, words: Sequence[str]) -> Experiment:
    return resolve("exp.yaml", overrides=words, env=ENV, preset_dirs=lambda framework: [str(folder)], cwd=str(folder))


def _told(error: PrimusError) -> str:
    errors = error.errors if isinstance(error, ErrorGroup) else (error,)
    for one in errors:
        if not (isinstance(one, ConfigError) and one.what and one.where and one.remedy):
            raise Failure(f"an error without what, where or remedy: {one!r} {one.where!r} {one.remedy!r}")
    if len("".join(problem_lines(errors))) > _SCREEN:
        raise Failure(f"errors that fill more than a screen: {errors[0].what[:80]}")
    return " ... ".join(errors[0].what.partition(":")[0].split("`")[::2]).strip()


def _refuse_wrong(key: str, leaf: Leaf) -> None:
    """A leaf without an origin; and typing raises nothing but configuration errors."""
    if not (leaf.origin.line >= 1 or leaf.origin.file == "command line"):
        raise Failure(f"{key} has no origin")
    for kind in get_args(Type):
        with suppress(ConfigError):
            coerce(Parameter(name="x", type=kind), leaf)


def leaves(experiment: Experiment) -> Iterator[tuple[str, Leaf]]:
    """Every leaf with a name of its own."""
    sections = {"env": experiment.env, "platform": experiment.platform, **experiment.launchers}
    sections |= {f"modules.{name}": module.params for name, module in experiment.modules.items()}
    for section, entries in sections.items():
        yield from ((f"{section}: {key}", leaf) for key, leaf in entries.items())


def same(one: Value, other: Value) -> bool:
    """Equality that holds for NaN and tells 1 from 1.0 and True."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def fuzz(folder: Path, seed: int, numbers: Sequence[int]) -> Tally:
    """Judge inputs one after the other.

    Raises:
        Failure: at the first bad one.
    """
    surroundings(folder)
    tally = Tally()
    before = 0.0
    for count, number in enumerate(numbers):
        started = time.process_time()
        tally.outcomes[_guarded(folder, seed, number)] += 1
        taken = time.process_time() - started
        tally.slowest = max(tally.slowest, taken)
        before = before if count > 50 else _largest()
        tally.growth = _largest() - before
        if taken > SECONDS:
            raise Failure(f"input {number} takes {taken:.1f} s")
        if tally.growth > MEGABYTES:
            raise Failure(f"input {number}: memory grew by {tally.growth:.0f} MB")
    return tally


def _guarded(folder: Path, seed: int, number: int) -> str:
    def give_up(number_of_signal: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no end after {_PATIENCE} s")

    old = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    try:
        return judge(folder, case(seed, number))
    except Exception as error:
        raise Failure(f"input {number}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _largest() -> float:
    """The largest resident size so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Print what came of the inputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run one input, and print it")
    args = parser.parse_args()
    numbers = range(args.count) if args.only is None else [args.only]
    if args.only is not None:
        print(case(args.seed, args.only))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tally = fuzz(Path(folder), args.seed, numbers)
    for outcome, count in tally.outcomes.most_common(40):
        print(f"{count:8} {outcome[:100]}")
    print(f"{len(numbers)} inputs, seed {args.seed}, {time.perf_counter() - started:.0f} s")
    print(f"slowest {tally.slowest * 1000:.0f} ms of CPU, memory grew by {tally.growth:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
