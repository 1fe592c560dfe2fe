"""The table of other products' parameters: how it is read, and what a row makes of a value."""

from __future__ import annotations

import json

import pytest

from primus_core.errors import ConfigError
from primus_core.experiment import Layer, Leaf, Origin, Value
from primus_core.parameters import ForeignKey, load_foreign
from primus_core.parameters.foreign import Fate, asks, foreign_key, is_off, unused

WHY = "it is for another machine"


def key(fate: Fate, **more: object) -> ForeignKey:
    rows = load_foreign(json.dumps([{"name": "k", "fate": fate, "why": WHY, **more}]))
    return rows["k"]


def leaf(value: Value, layer: Layer = "overrides") -> Leaf:
    return Leaf(value=value, origin=Origin(file="e.yaml", line=3, layer=layer))


def nothing_is_on(name: str) -> bool:
    return False


def everything_is_on(name: str) -> bool:
    return True


def test_names_that_share_a_row() -> None:
    """One row may speak of many names."""
    rows = load_foreign(json.dumps([{"names": ["a", "b"], "fate": "alias", "native": "c", "why": WHY}]))
    assert {name: row.native for name, row in rows.items()} == {"a": "c", "b": "c"}


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (
            [{"name": "a", "fate": "gone", "why": ""}, {"names": ["b", "a"], "fate": "gone", "why": ""}],
            "a has two rows",
        ),
        ([{"name": "a", "fate": "lost", "why": ""}], "unknown fate 'lost'"),
    ],
)
def test_table_that_is_wrong(rows: object, fault: str) -> None:
    """A fault of the table is told to whoever packs it."""
    with pytest.raises(ValueError, match=fault):
        load_foreign(json.dumps(rows))


def test_entry_of_a_group() -> None:
    """An entry has the row of its group unless it has one of its own."""
    rows = load_foreign(json.dumps([{"names": ["a", "a.b"], "fate": "inactive", "why": WHY}]))
    found = [foreign_key(path, rows) for path in ("a.b", "a.c.d", "b")]
    assert [row.name if row else None for row in found] == ["a.b", "a", None]


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}, "False", "0", "none", " null "])
def test_values_that_ask_for_nothing(value: Value) -> None:
    """Nothing is asked for by what is zero, false or empty, also where it is written as text."""
    assert is_off(value)
    assert key("gone").is_harmless(value)


@pytest.mark.parametrize("value", [True, 1, 0.25, "no", "on", [0], {"a": None}])
def test_values_that_ask_for_something(value: Value) -> None:
    """Anything else is a request; what a gone parameter asked for cannot be ignored."""
    assert not is_off(value)
    with pytest.raises(ConfigError) as raised:
        unused(key("gone", remedy="set another"), "k", leaf(value), everything_is_on)
    assert raised.value.where == "e.yaml:3"
    assert raised.value.remedy == "set another"


def test_listed_values_replace_the_rule() -> None:
    """Where true asks for nothing, false may be a request."""
    row = key("gone", harmless=[True])
    assert row.is_harmless("true")
    assert row.is_harmless(None)
    assert not row.is_harmless(False)


@pytest.mark.parametrize(
    ("layer", "severity"),
    [
        ("default", "info"),
        ("preset", "info"),
        ("model", "info"),
        ("extends", "warning"),
        ("file", "warning"),
        ("overrides", "warning"),
        ("command line", "warning"),
    ],
)
def test_who_is_warned(layer: Layer, severity: str) -> None:
    """A user is warned of what the user's own files ask for in vain."""
    assert unused(key("inactive"), "k", leaf(True, layer), everything_is_on).severity == severity


def test_part_of_what_is_off() -> None:
    """A detail of something that is off asks for nothing, whatever its fate."""
    for fate in ("inactive", "gone", "needs"):
        row = key(fate, part_of="other")
        told = unused(row, "k", leaf(7), nothing_is_on)
        assert told.severity == "info"
        assert "`other`" in told.why
        assert not asks(row, leaf(7), nothing_is_on)


def test_what_is_needed() -> None:
    """A request for what there is not is left to a check: it is no warning, and says what it asks for."""
    assert asks(key("needs"), leaf(7), nothing_is_on)
    assert not asks(key("needs"), leaf(0), nothing_is_on)
    assert not asks(key("gone"), leaf(7), nothing_is_on)
    told = unused(key("needs"), "k", leaf(7), nothing_is_on)
    assert told.severity == "info"
    assert told.why == f"it asks for {WHY}"


def test_switch_that_the_back_end_reads() -> None:
    """A switch takes the values that its row lists, and any where it lists none."""
    with pytest.raises(ConfigError):
        unused(key("read", harmless=[True, False]), "k", leaf("often"), nothing_is_on)
    assert unused(key("read", harmless=[True, False]), "k", leaf(False), nothing_is_on).severity == "info"
    assert unused(key("read"), "k", leaf("0,1,2"), nothing_is_on).severity == "info"
