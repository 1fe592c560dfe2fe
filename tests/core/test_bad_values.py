"""What users really write: each value reaches the library as it was meant, or is answered with its line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.parameters import check, load_schema
from tests.core.resolving import HEAD, MODULE, OVERRIDES, refused, resolved

SCHEMA = load_schema(
    json.dumps(
        {
            "library": "lib",
            "version": "1.0",
            "parameters": {
                "lr": {"type": "float", "default": None, "nullable": False},
                "steps": {"type": "int", "default": 0},
                "flag": {"type": "bool", "default": False},
                "share": {"type": "str", "default": ""},
                "load": {"type": "str", "default": None},
                "mode": {"type": "str", "default": "None", "choices": ["None", "full"]},
                "time": {"type": "str", "default": None},
                "ranks": {"type": "list[int]", "default": None},
                "extra": {"type": "map", "default": {}},
            },
        }
    )
)
PRESETS = {"trainer": "steps: 1\n", "tiny": "flag: true\n"}


def typed(
    folder: Path, lines: str, *words: str, env: Mapping[str, str] | None = None
) -> tuple[dict[str, Value], list[PrimusError]]:
    """Typed parameters of an experiment with these overrides, and what is wrong with them."""
    exp = OVERRIDES + "".join(f"      {line}\n" for line in lines.splitlines())
    params = resolved(folder, exp, *words, env=env, **PRESETS).modules["pre_trainer"].params
    values, errors = check(params, SCHEMA)
    return values, list(errors)


@pytest.mark.parametrize(
    ("lines", "words", "env"),
    [
        ("lr: 1e-5", [], {}),
        ("lr: 1E-5", [], {}),
        ("lr: '1e-5'", [], {}),
        ("lr: 0.00001", [], {}),
        ("", ["lr=1e-5"], {}),
        ("lr: 3", ["lr=1e-5"], {}),
        ("lr: ${X:1e-5}", [], {}),
        ("lr: ${X:-1e-5}", [], {}),
        ("lr: '${X}'", [], {"X": "1e-5"}),
        ("lr: ${X}e-${Y:5}", [], {"X": "1"}),
        ("", ["lr=${X}"], {"X": " 1e-5\r"}),
    ],
)
def test_a_number_is_a_number(tmp_path: Path, lines: str, words: list[str], env: dict[str, str]) -> None:
    """``1e-5`` is one in a file, on the command line, as old YAML's text and from a variable."""
    values, errors = typed(tmp_path, lines, *words, env=env)
    assert not errors
    assert values["lr"] == 1e-5
    assert type(values["lr"]) is float


def test_falsy_values_reach_the_library(tmp_path: Path) -> None:
    """Zero, false, the empty text, list and map are values like any other, whatever they override."""
    values, errors = typed(tmp_path, "steps: 0\nflag: false\nshare: ''\nranks: []\nlr: 0\nextra: {}\nload: null")
    assert not errors
    wanted = {"steps": 0, "flag": False, "share": "", "ranks": [], "lr": 0.0, "extra": {}, "load": None}
    assert values == wanted
    assert {key: type(value) for key, value in values.items()} == {key: type(value) for key, value in wanted.items()}


@pytest.mark.parametrize(
    ("line", "key", "wanted"),
    [
        ("share: no", "share", "no"),
        ("share: off", "share", "off"),
        ("share: 0123", "share", "0123"),
        ("share: 1e5", "share", "1e5"),
        ("share: True", "share", "True"),
        ("share: 1_000", "share", "1_000"),
        ("time: 8:00:00", "time", "8:00:00"),
        ("time: 12:30", "time", "12:30"),
        ("time: 2024-01-01", "time", "2024-01-01"),
        ("mode: None", "mode", "None"),
        ("ranks: 8", "ranks", [8]),
    ],
)
def test_text_stays_what_was_written(tmp_path: Path, line: str, key: str, wanted: Value) -> None:
    """A text parameter gets the text, also where old YAML or YAML itself reads something else."""
    values, errors = typed(tmp_path, line)
    assert not errors
    assert values[key] == wanted
    assert typed(tmp_path, "", line.replace(": ", "=", 1))[0][key] == wanted
    assert typed(tmp_path, f"{key}: ${{X}}", env={"X": line.partition(": ")[2]})[0][key] == wanted


@pytest.mark.parametrize(
    ("line", "env", "told"),
    [
        (
            "flag: ${X:false}",
            {"X": ""},
            "exp.yaml:11: `flag` takes true or false, and ${X} is set, but empty"
            " | a default counts only where the variable is not set at all | unset X, or give it a value",
        ),
        (
            "flag: ${X:false}",
            {"X": "2"},
            "exp.yaml:11: `flag` takes true or false, not 2 | the value is from ${X}"
            " | write true or false, such as its default false",
        ),
        (
            "flag: no",
            {},
            'exp.yaml:11: `flag` takes true or false, not "no" |  | write true or false, such as its default false',
        ),
        (
            "flag: 2",
            {},
            "exp.yaml:11: `flag` takes true or false, not 2 |  | write true or false, such as its default false",
        ),
        (
            "load: None",
            {},
            "exp.yaml:11: `load` is None, which is text in YAML |  | write null",
        ),
        (
            "steps: ${X}",
            {"X": "None"},
            "exp.yaml:11: `steps` is None, which is text in YAML | the value is from ${X}"
            " | write null, for the default",
        ),
        ("lr: [1e-5]", {}, "exp.yaml:11: `lr` takes a number, not [1e-05] |  | write a number"),
        (
            "steps: [1, 2]",
            {},
            "exp.yaml:11: `steps` takes a whole number, not [1, 2] |  | write a whole number, such as its default 0",
        ),
        (
            "steps: {a: 1}",
            {},
            "exp.yaml:11: unknown parameter `steps.a` | lib 1.0 has no parameter of this name | did you mean `steps`?",
        ),
        (
            "share: [a]",
            {},
            'exp.yaml:11: `share` takes text, not ["a"] |  | write one text, such as "a"',
        ),
        (
            "steps: 1_000",
            {},
            'exp.yaml:11: `steps` takes a whole number, not "1_000" |  | write a whole number, such as its default 0',
        ),
        (
            "ranks: [1, x]",
            {},
            'exp.yaml:11: `ranks` takes a list of whole numbers or null, not [1, "x"] |  | write a list',
        ),
        (
            "mode: ful",
            {},
            'exp.yaml:11: `mode` cannot be "ful" |  | did you mean full? write one of: "None", "full"',
        ),
    ],
)
def test_a_wrong_value_is_answered(tmp_path: Path, line: str, env: dict[str, str], told: str) -> None:
    """A value of another kind is an error with its line, the rule and a way out."""
    _, (error,) = typed(tmp_path, line, env=env)
    assert f"{error} | {error.why} | {error.remedy}".startswith(told)


@pytest.mark.parametrize(("text", "wanted"), [("0", False), ("off", False), ("No", False), ("1", True), ("TRUE", True)])
def test_a_flag_of_a_variable(tmp_path: Path, text: str, wanted: bool) -> None:
    """A switch takes the words of shells from a variable."""
    values, errors = typed(tmp_path, "flag: ${X:false}", env={"X": text})
    assert (values["flag"], errors) == (wanted, [])


@pytest.mark.parametrize(
    ("exp", "told"),
    [
        (
            OVERRIDES + "      lr: 1\n      steps: 2\n      lr: 1\n",
            "exp.yaml:13: `lr` is written twice | it is set on line 11 and again on line 13 | keep one of them",
        ),
        (
            HEAD + MODULE + "    override: {lr: 1}\n",
            "exp.yaml:10: unknown key `override` | a module has no such key | did you mean `overrides`?",
        ),
        (
            HEAD + MODULE.replace("pre_trainer:", "pretrainer:"),
            "exp.yaml:6: unknown key `modules.pretrainer` | the experiment has no such key"
            " | did you mean `modules.pre_trainer`?",
        ),
        (
            HEAD.replace("first", '"fi\\nrst"') + MODULE,
            "exp.yaml:3: `exp_name` cannot be 'fi\\nrst' | it names one folder inside the workspace"
            " | use a name without slashes and blanks at its ends",
        ),
        (
            HEAD + MODULE.replace("pre_trainer:", '"pre\\ntrainer":'),
            "exp.yaml:6: a key has a character that cannot be seen: '\\n' |  | type the key anew",
        ),
        (
            HEAD.replace("first", "${NAME}") + MODULE,
            "exp.yaml:3: the environment variable NAME is not set | `${NAME}` needs it"
            " | export NAME=..., or write a default: ${NAME:default}",
        ),
    ],
)
def test_a_wrong_file_is_answered(tmp_path: Path, exp: str, told: str) -> None:
    """What cannot be read as it was meant is an error with its line, the rule and a way out."""
    (error,) = refused(tmp_path, exp)
    assert f"{error} | {error.why} | {error.remedy}" == told
