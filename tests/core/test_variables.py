"""Environment variables in files and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters import Parameter, Type, check, coerce, load_schema
from primus_core.yamlfile import dump_experiment
from tests.core.resolving import HEAD, MODULE, OVERRIDES, refused, resolved, values

ENV = {"ONE": "1", "EMPTY": "", "WORD": "word", "LIST": "[1, x]", "MAP": "{a: 0123}", "NULL": "null", "OFF": "Off"}


def leaf_of(folder: Path, text: str, env: Mapping[str, str] = ENV) -> Leaf:
    """The parameter ``x`` with this text in an experiment file."""
    return resolved(folder, f"{OVERRIDES}      x: {text}\n", env=env).modules["pre_trainer"].params["x"]


@pytest.mark.parametrize(
    ("text", "value", "variables"),
    [
        ("${ONE}", 1, ("ONE",)),
        ("${NOT:1e-5}", 1e-5, ("NOT",)),
        ("${NOT:-1e-5}", 1e-5, ("NOT",)),
        ("${NOT:--1}", -1, ("NOT",)),
        ("${ONE:-2}", 1, ("ONE",)),
        ("${NOT:${ONE}}", 1, ("NOT", "ONE")),
        ("${NOT:${NO:${NIX:x}}}", "x", ("NOT", "NO", "NIX")),
        ("${ONE:${NOT}}", 1, ("ONE",)),
        ("${NOT:a${ONE}b}", "a1b", ("NOT", "ONE")),
        ("a-${WORD}/${NOT:z}", "a-word/z", ("WORD", "NOT")),
        ("${WORD}${ONE}", "word1", ("WORD", "ONE")),
        ("${NULL}", None, ("NULL",)),
        ("${NOT:null}", None, ("NOT",)),
        ("${NOT:}", None, ("NOT",)),
        ("${NOT:-}", None, ("NOT",)),
        ("${EMPTY}", "", ("EMPTY",)),
        ("${EMPTY:-5}", "", ("EMPTY",)),
        ("${NOT:${EMPTY}}", "", ("NOT", "EMPTY")),
        ("a${EMPTY}b", "ab", ("EMPTY",)),
        ("${LIST}", [1, "x"], ("LIST",)),
        ("${NOT:[0, 1]}", [0, 1], ("NOT",)),
        ("'${NOT:{}}'", {}, ()),
        ("'${NOT:[a}'", "[a", ("NOT",)),
        ("'${NOT:[a: b: c]}'", "[a: b: c]", ("NOT",)),
        ("x${NOT:a}b}", "xab}", ("NOT",)),
        ("$${ONE}", "${ONE}", ()),
        ("'a $${ONE} ${ONE} $$ $'", "a ${ONE} 1 $$ $", ("ONE",)),
        ("${NOT:$${ONE}}", "${ONE}", ("NOT",)),
        ("$$${ONE}", "$${ONE}", ()),
        ("$ONE", "$ONE", ()),
    ],
)
def test_references(tmp_path: Path, text: str, value: Value, variables: tuple[str, ...]) -> None:
    """Each form of a reference is replaced, typed where it stands alone, and named in the leaf."""
    leaf = leaf_of(tmp_path, text)
    assert leaf.value == value
    assert type(leaf.value) is type(value)
    assert leaf.variables == variables


def test_a_map_in_a_variable_is_a_map(tmp_path: Path) -> None:
    """Its entries are parameters, each with its text and the variable's name."""
    params = resolved(tmp_path, OVERRIDES + "      x: ${MAP}\n", env=ENV).modules["pre_trainer"].params
    assert (params["x.a"].value, params["x.a"].text, params["x.a"].variables) == (123, "0123", ("MAP",))


def test_a_variable_of_the_ranks_is_text_as_it_is(tmp_path: Path) -> None:
    """Under ``env:`` brackets mean nothing, in files and on the command line."""
    exp = HEAD + MODULE + "env: {A: '${LIST}', B: '${MAP}', C: '${ONE}'}\n"
    env = resolved(tmp_path, exp, "env.D={x: 1}", env={**ENV, "MAP": "{a: [}"}).env
    assert [env[name].value for name in "ABCD"] == ["[1, x]", "{a: [}", "1", "{x: 1}"]


def test_the_command_line_knows_variables(tmp_path: Path) -> None:
    """A word that the shell left alone is replaced as in a file."""
    leaf = resolved(tmp_path, OVERRIDES + "      x: 1\n", "x=${NOT:1e-5}", env={}).modules["pre_trainer"].params["x"]
    assert (leaf.value, leaf.variables) == (1e-5, ("NOT",))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("${NOPE}", "the environment variable NOPE is not set"),
        ("${NOT:${NOPE}}", "the environment variable NOPE is not set"),
        ("${NOT:x", "`${NOT:x`: a brace is not closed"),
        ("${NOT:{}", "`${NOT:{}`: a brace is not closed"),
        ("${}", "`${}`: a `${` that is no reference"),
        ("${A B}", "`${A B}`: a `${` that is no reference"),
        ("${A", "`${A`: a `${` that is no reference"),
        ("${A-b}", "`${A-b}`: a `${` that is no reference"),
        ("${A:=b}", "`${A:=b}`: a `${` that is no reference"),
        ("${A:?}", "`${A:?}`: a `${` that is no reference"),
        ("${ÄRGER:1}", "`${ÄRGER:1}`: a `${` that is no reference"),
        ("${A:" * 40 + "}" * 40, "braces inside braces, 16 levels deep"),
        ("${BIG}" * 200, "the variables make it longer than 1048576 characters"),
        ("${ESC}x", "a character that YAML does not allow: '\\x1b'"),
    ],
)
def test_broken_references(tmp_path: Path, text: str, what: str) -> None:
    """A variable that is not set and a reference that is none are errors with file, line and name."""
    env = {"BIG": "x" * 10_000, "ESC": "\x1b"}
    (error,) = refused(tmp_path, f"{OVERRIDES}      x: '{text}'\n", env=env)
    assert what in error.what
    assert error.where.startswith("exp.yaml:11")


@pytest.mark.parametrize("text", ["${BIG}", "a${BIG}", "${NOT:${BIG}}"])
def test_variables_are_no_bomb(tmp_path: Path, text: str) -> None:
    """A long variable that is used a thousand times is refused at once."""
    items = ", ".join([f"'{text}'"] * 1000)
    (error,) = refused(tmp_path, f"{OVERRIDES}      x: [{items}]\n", env={"BIG": "x" * 100_000})
    assert "the variables bring more than 4194304 characters to the experiment" in error.what


def test_a_variable_with_a_bad_character_is_named(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are an error that names line and variable."""
    (error,) = refused(tmp_path, OVERRIDES + "      x: a/${BAD}\n", env={"BAD": "\udcff"})
    assert error.where == "exp.yaml:11, ${BAD}"


def test_an_empty_name_of_a_variable_is_empty(tmp_path: Path) -> None:
    """A folder's name from an empty variable is missing, not the text null."""
    (error,) = refused(tmp_path, HEAD.replace("first", "${EMPTY:x}") + MODULE, env=ENV)
    assert str(error) == "exp.yaml:3: `exp_name` is empty"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [*((word, True) for word in ("1", "true", "YES", "On")), *((word, False) for word in ("0", "False", "no", "OFF"))],
)
def test_a_shells_words_are_bools(tmp_path: Path, text: str, wanted: bool) -> None:
    """A bool parameter takes the habits of shells from a variable or its default, alone or within a text."""
    flag = Parameter(name="x", type="bool")
    assert coerce(flag, leaf_of(tmp_path, "${X:false}", {"X": text})) is wanted
    assert coerce(flag, leaf_of(tmp_path, f"${{X:{text}}}", {})) is wanted
    assert coerce(flag, leaf_of(tmp_path, "${X}${Y:}", {"X": text})) is wanted


@pytest.mark.parametrize("text", ["2", "off", "yes", "'true'"])
def test_a_files_words_are_not(tmp_path: Path, text: str) -> None:
    """What stands in a file is a bool only as true or false, or as the numbers 1 and 0."""
    with pytest.raises(ConfigError, match="`x` takes true or false"):
        coerce(Parameter(name="x", type="bool"), leaf_of(tmp_path, text))


@pytest.mark.parametrize("kind", ["bool", "int", "float", "list[int]", "map"])
def test_an_empty_variable_is_no_value(tmp_path: Path, kind: Type) -> None:
    """Set but empty is an error that says so, and not the default; null in the text would be."""
    with pytest.raises(ConfigError) as raised:
        coerce(Parameter(name="x", type=kind), leaf_of(tmp_path, "${EMPTY:false}"))
    assert raised.value.what.endswith(", and ${EMPTY} is set, but empty")
    assert raised.value.where == "exp.yaml:11"
    assert raised.value.remedy == "unset EMPTY, or give it a value"


def test_an_empty_variable_is_text(tmp_path: Path) -> None:
    """A text parameter gets the empty text."""
    assert coerce(Parameter(name="x", type="str", nullable=True), leaf_of(tmp_path, "${EMPTY:a}")) == ""


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("int", "1e3", 1000),
        ("float", "1e-5", 1e-5),
        ("str", "0123", "0123"),
        ("str", "true", "true"),
        ("list[int]", "[1, 2]", [1, 2]),
        ("list[str]", "[0123, no]", ["0123", "no"]),
        ("list[str]", "a", ["a"]),
        ("any", "1e-5", 1e-5),
    ],
)
def test_the_parameter_types_the_variable(tmp_path: Path, kind: Type, text: str, wanted: Value) -> None:
    """A variable's text becomes what the parameter takes."""
    got = coerce(Parameter(name="x", type=kind), leaf_of(tmp_path, "${X}", {"X": text}))
    assert (got, type(got)) == (wanted, type(wanted))


def test_a_wrong_value_names_its_variable(tmp_path: Path) -> None:
    """The error of a value names the line, and the variable that it is from."""
    schema = load_schema('{"library": "l", "version": "1", "parameters": {"x": {"type": "int", "default": 1}}}')
    _, (error,) = check({"x": leaf_of(tmp_path, "${WORD:5}")}, schema)
    assert (error.what, error.where) == ('`x` takes a whole number, not "word"', "exp.yaml:11")
    assert error.why == "the value is from ${WORD}"


def test_env_takes_part_in_extends(tmp_path: Path) -> None:
    """Variables of the ranks are merged by name over files, each with its substitution and origin."""
    below = "env: {A: below, B: '${WORD}'}\n"
    exp = f"extends: below.yaml\n{HEAD}{MODULE}env: {{A: '${{NOT:above}}'}}\n"
    env = resolved(tmp_path, exp, env=ENV, below=below).env
    assert {name: (leaf.value, str(leaf.origin)) for name, leaf in env.items()} == {
        "A": ("above", "exp.yaml:11"),
        "B": ("word", "below.yaml:1"),
    }


def test_a_dump_keeps_what_a_shell_wrote(tmp_path: Path) -> None:
    """``tRUE``, which is a bool from a variable and a word, is one in the dump; numbers keep their notation."""
    exp = f"{OVERRIDES}      x: ${{A}}\n      y: ${{B}}\n      z: '${{C}}'\n"
    first = resolved(tmp_path, exp, "w=fALSE", env={"A": "tRUE", "B": "1E5", "C": "$${X} é\n"})
    again = resolved(tmp_path, dump_experiment(first))
    wanted = {
        "w": False,
        "x": True,
        "y": 1e5,
        "z": "$${X} é",
        "lr": 1,
        "rope.base": 2,
        "rope.scale": 3,
        "hidden_size": 128,
    }
    assert values(first) == values(again) == wanted
    assert again.modules["pre_trainer"].params["y"].text == "1E5"


def test_a_reference_written_with_escapes_is_one(tmp_path: Path) -> None:
    """In double quotes `\\x24` is a dollar sign, and what follows is a reference like any other."""
    assert leaf_of(tmp_path, '"\\x24{WORD}"').value == "word"
