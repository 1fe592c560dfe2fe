"""Typing of parameters."""

from __future__ import annotations

import json
import math
from importlib.resources import files

import pytest

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Origin, Value
from primus_core.parameters import Parameter, Schema, Type, check, coerce, load_schema, nearest

HERE = Origin(file="exp.yaml", line=7, column=3)


def leaf(value: Value, text: Value = None) -> Leaf:
    return Leaf(value=value, text=text, origin=HERE)


def parameter(kind: Type, **more: object) -> Parameter:
    return Parameter(name="key", type=kind, **more)  # type: ignore[arg-type]  # keywords of the one class


@pytest.mark.parametrize(
    ("kind", "value", "text", "wanted"),
    [
        ("int", 50, "50", 50),
        ("int", "50", None, 50),
        ("int", 1000.0, "1e3", 1000),
        ("int", 0.0, "0e3", 0),
        ("int", "1e3", None, 1000),
        ("int", 1e22, "9007199254740993e6", 9007199254740993 * 10**6),
        ("float", 1, "1", 1.0),
        ("float", "1e-5", None, 1e-5),
        ("float", "-.5", None, -0.5),
        ("str", math.inf, ".inf", ".inf"),
        ("bool", True, "true", True),
        ("bool", 1, "1", True),
        ("bool", 0, "0", False),
        ("str", "no", None, "no"),
        ("str", 123, "0123", "0123"),
        ("str", 1e5, "1e5", "1e5"),
        ("str", True, "True", "True"),
        ("list[int]", [1, "2"], ["1", None], [1, 2]),
        ("list[int]", 8, "8", [8]),
        ("list[str]", ["no", 123], [None, "0123"], ["no", "0123"]),
        ("list[any]", [1, None, "x"], None, [1, None, "x"]),
        ("map", {"a": 1}, None, {"a": 1}),
        ("any", {"a": [1]}, None, {"a": [1]}),
    ],
)
def test_a_value_of_the_right_kind_is_typed(kind: Type, value: Value, text: Value, wanted: Value) -> None:
    """A value that can be read as the parameter's type becomes that type."""
    got = coerce(parameter(kind), leaf(value, text))
    assert got == wanted
    assert type(got) is type(wanted)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int", True, "true"),
        ("int", 50.0, "50.0"),
        ("int", 1.5, "1.5"),
        ("int", 1.5, "15e-1"),
        ("int", "fifty", None),
        ("int", "1e999", None),
        ("int", "0e9999999999999999999999", None),
        ("int", "1e-9999999999999999999999", None),
        ("int", 0.0, "0e000000000000009999999999999999999999"),
        ("int", [1], ["1"]),
        ("float", True, "true"),
        ("float", "1e-5s", None),
        ("float", "1e999", None),
        ("float", 10**400, None),
        ("bool", 2, "2"),
        ("bool", 1.0, "1.0"),
        ("bool", "true", None),
        ("bool", "no", None),
        ("str", [1], None),
        ("str", {}, None),
        ("str", None, "null"),
        ("list[int]", [1, None], None),
        ("list[int]", {"a": 1}, None),
        ("map", [1], None),
        ("map", 1, None),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: Type, value: Value, text: Value) -> None:
    """A value that is not of the parameter's type is an error that names place, key, value and the type wanted."""
    with pytest.raises(ConfigError) as raised:
        coerce(parameter(kind), leaf(value, text))
    assert raised.value.where == "exp.yaml:7"
    assert "`key` takes " in raised.value.what
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("float", math.nan, ".nan"),
        ("float", math.inf, ".inf"),
        ("float", -math.inf, "-.inf"),
        ("list[float]", math.inf, ".inf"),
        ("list[any]", [1, math.nan], ".nan"),
        ("map", {"a": [math.inf]}, ".inf"),
        ("any", math.nan, ".nan"),
    ],
)
def test_a_number_that_is_not_finite_is_refused(kind: Type, value: Value, shown: str) -> None:
    """YAML's ``.nan`` and ``.inf`` are values of no parameter but text."""
    with pytest.raises(ConfigError) as raised:
        coerce(parameter(kind), leaf(value))
    assert raised.value.what == f"`key` cannot be {shown}"
    assert raised.value.where == "exp.yaml:7"
    assert raised.value.remedy == "write a finite number"


def test_a_number_in_an_entry_of_a_map_is_finite_too() -> None:
    """An entry of a map parameter is held to it as well, by its own name."""
    _, errors = check({"extra.a": leaf(math.inf)}, SCHEMA)
    assert [error.what for error in errors] == ["`extra.a` cannot be .inf"]


def test_null_needs_a_nullable_parameter() -> None:
    """Null is a value of nullable parameters only."""
    assert coerce(parameter("int", nullable=True), leaf(None, "null")) is None
    with pytest.raises(ConfigError, match="`key` takes a whole number, not null"):
        coerce(parameter("int"), leaf(None, "null"))


def test_choices_are_listed_with_the_nearest() -> None:
    """A value that is no choice is answered with the nearest one and all of them."""
    styles = parameter("str", choices=("cosine", "linear", "constant"))
    assert coerce(styles, leaf("linear")) == "linear"
    with pytest.raises(ConfigError) as raised:
        coerce(styles, leaf("cosin"))
    assert raised.value.remedy == 'did you mean cosine? write one of: "cosine", "linear", "constant"'


def test_choices_hold_for_each_element() -> None:
    """The choices of a list parameter are those of its elements."""
    modules = parameter("list[str]", choices=("mlp", "moe"))
    assert coerce(modules, leaf(["mlp", "moe"])) == ["mlp", "moe"]
    with pytest.raises(ConfigError, match='`key` cannot be "attention"'):
        coerce(modules, leaf(["mlp", "attention"]))


SCHEMA = load_schema(
    json.dumps(
        {
            "library": "megatron-core",
            "version": "0.19.2",
            "parameters": {
                "mock_data": {"type": "bool", "default": False},
                "train_iters": {"type": "int", "default": None},
                "lr": {"type": "float", "default": None, "nullable": False},
                "training.steps": {"type": "int", "default": 1},
                "extra": {"type": "map", "default": {}},
            },
        }
    )
)


def test_all_problems_come_together() -> None:
    """An unknown key and a wrong value are both reported, beside the values that are right."""
    params = {"mock_date": leaf(True), "train_iters": leaf("fifty"), "lr": leaf("1e-5")}
    values, errors = check(params, SCHEMA)
    assert values == {"lr": 1e-5}
    assert [error.what for error in errors] == [
        "unknown parameter `mock_date`",
        '`train_iters` takes a whole number or null, not "fifty"',
    ]
    assert errors[0].remedy == "did you mean `mock_data`?"
    assert errors[0].where == "exp.yaml:7"
    assert "megatron-core 0.19.2" in errors[0].why


def test_a_flood_of_unknown_names_is_told_without_guesses() -> None:
    """The nearest name is searched for the first fifty only; all are told."""
    _, errors = check({f"mock_dat{number}": leaf(True) for number in range(60)}, SCHEMA)
    assert len(errors) == 60
    assert ["did you mean" in error.remedy for error in errors] == [True] * 50 + [False] * 10


def test_keys_of_others_are_left_to_them() -> None:
    """Keys that another schema owns are neither errors nor results, and are suggested for a misspelling."""
    params = {"accelerator": leaf("cpu"), "profiler.steps": leaf(3), "acelerator": leaf("cpu")}
    values, errors = check(params, SCHEMA, also=("accelerator", "profiler"))
    assert values == {}
    assert [error.remedy for error in errors] == ["did you mean `accelerator`?"]


def test_entries_of_a_map_parameter_are_collected() -> None:
    """Dotted entries of a parameter that takes a map become that map."""
    values, errors = check({"extra.a.b": leaf(1), "extra.c": leaf("x")}, SCHEMA)
    assert not errors
    assert values == {"extra": {"a": {"b": 1}, "c": "x"}}


def test_entries_of_a_scalar_parameter_are_unknown() -> None:
    """A map under a scalar parameter is an unknown key."""
    values, errors = check({"lr.decay": leaf(1)}, SCHEMA)
    assert values == {}
    assert [error.what for error in errors] == ["unknown parameter `lr.decay`"]


def test_a_group_is_no_parameter() -> None:
    """A value for a group of parameters is answered with one of its members; an empty group says nothing."""
    assert check({"training": leaf({})}, SCHEMA) == ({}, [])
    assert check({"training": leaf(None)}, SCHEMA) == ({}, [])
    _, errors = check({"training": leaf(5)}, SCHEMA)
    assert "`training.steps`" in errors[0].remedy


def test_null_default_means_nullable_unless_said_otherwise() -> None:
    """A schema row is nullable when its default is null, or as it says."""
    assert SCHEMA.parameters["train_iters"].nullable
    assert not SCHEMA.parameters["lr"].nullable
    assert not SCHEMA.parameters["mock_data"].nullable


def test_an_unknown_type_in_a_schema_is_refused() -> None:
    """A schema file with a type nobody knows cannot be loaded."""
    with pytest.raises(ValueError, match="parameter x: unknown type 'complex'"):
        load_schema('{"library": "l", "version": "1", "parameters": {"x": {"type": "complex"}}}')


@pytest.mark.parametrize(
    ("name", "found"),
    [("mock_date", "mock_data"), ("micro-batch-size", "micro_batch_size"), ("LR", "lr"), ("zzz", None)],
)
def test_nearest(name: str, found: str | None) -> None:
    """The nearest name ignores case and dashes, and is none where nothing is close."""
    assert nearest(name, ["lr", "mock_data", "micro_batch_size"]) == found


def test_core_parameters_type_their_own_defaults() -> None:
    """Every default in core's schema is a value that its parameter takes."""
    schema: Schema = load_schema((files("primus_core") / "core_parameters.json").read_text())
    assert "auto_continue_train" in schema.parameters
    for one in schema.parameters.values():
        assert coerce(one, leaf(one.default)) == one.default
        assert one.help
    assert schema.defaults["accelerator"] == "auto"
