"""Whatever stands in a file, reading it gives a map or a configuration error."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.yamlfile import Fields, dump_experiment, load, loads, parse_scalar

T = TypeVar("T")
YAML_TEXT = st.text(alphabet="ab:-[]{}&*!|>?'\"%@`,#~<.= \n\t01\\\0\x85\u2028é😀", max_size=60)
BOUNDED = settings(
    max_examples=80, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
HERE = Origin(file="f.yaml", line=1)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    SCALARS.filter(lambda value: not isinstance(value, str) or ("${" not in value and "\0" not in value)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "no", "1e5"]), inner, max_size=3),
    max_leaves=6,
)


def attempt(read: Callable[[], T]) -> T | ConfigError:
    """What reading gives: the result, or the only error that it may raise."""
    try:
        return read()
    except ConfigError as error:
        return error


@BOUNDED
@given(YAML_TEXT | st.text(max_size=60))
@example('a: "\\ud800"')
@example('a: "\\U00110000"')
@example("a: !%ff x")
@example("%TAG ! tag:x:\n---\na: !y 1")
def test_any_text_is_a_map_or_an_error(text: str) -> None:
    """Any text is a map whose values have types of YAML, or a ConfigError that names the file."""
    read = attempt(lambda: loads(text, "f.yaml"))
    if isinstance(read, ConfigError):
        assert read.where.startswith("f.yaml")
        assert read.what
    else:
        assert all(isinstance(key, str) for key in read.value)
        assert all(node.origin.line >= 1 for node in read.entries.values())


@BOUNDED
@given(st.binary(max_size=60))
def test_any_bytes_are_a_map_or_an_error(tmp_path: Path, content: bytes) -> None:
    """Any file content is a map or a ConfigError that names the file."""
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    read = attempt(lambda: load(str(path)))
    assert isinstance(read, Fields) or read.where.startswith(str(path))


@BOUNDED
@given(YAML_TEXT | st.text(max_size=40))
def test_any_word_is_a_value_or_an_error(word: str) -> None:
    """Any word of the command line is a value or a ConfigError."""
    read = attempt(lambda: parse_scalar(word))
    assert not isinstance(read, ConfigError) or read.where == "command line"


@BOUNDED
@given(VALUES)
@example("\x85\u2028\u2029\ufeff\x7f x")
@example(["~", "null", "1e5", "- a", "a: b", "# x", ""])
def test_a_dumped_experiment_reads_back(value: Value) -> None:
    """Every value of a dumped experiment is the same value when the file is read."""
    module = Module(
        name="pre_trainer",
        framework="megatron",
        framework_origin=HERE,
        config="pre_trainer.yaml",
        model="m.yaml",
        params={"a.b": Leaf(value=value, origin=HERE)},
    )
    experiment = Experiment(
        file="f.yaml",
        work_group="no",
        user_name="0123",
        exp_name="x y",
        workspace="/w",
        modules={"pre_trainer": module},
    )
    read = loads(dump_experiment(experiment), "resolved.yaml").value
    modules = read["modules"]
    assert isinstance(modules, dict)
    assert (read["work_group"], read["user_name"], read["exp_name"]) == ("no", "0123", "x y")
    assert same(
        modules["pre_trainer"],
        {**{k: getattr(module, k) for k in ("framework", "config", "model")}, "overrides": {"a.b": value}},
    )


def same(one: Value, other: Value) -> bool:
    """Equality that holds for NaN and tells 1 from 1.0 and True."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other
