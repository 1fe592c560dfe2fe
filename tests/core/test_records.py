"""Classes of `primus_core.records` behave as those of attrs, method by method."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from primus_core import records

Make = Callable[..., Any]


def _pair(frozen: Make) -> tuple[type, type]:
    @frozen(kw_only=True)
    class Base:
        number: int
        text: str = ""
        shown: object = attrs.field(default=None, repr=False)
        _private: float = 0.0
        beside: int = attrs.field(default=0, eq=False)

    @frozen(kw_only=True)
    class Derived(Base):
        more: tuple[int, ...] = ()

    return Base, Derived


@records.frozen
class Empty:
    """A class without fields."""


@records.frozen(kw_only=True)
class Kept:
    """One that can be imported again, as copies must be."""

    value: int
    parts: tuple[str, ...] = ()


ARGUMENTS: list[dict[str, Any]] = [
    {"number": 1},
    {"number": 1, "beside": 7},
    {"number": 1, "text": "é\n", "shown": 3},
    {"number": 1, "private": 2.5},
    {"number": True},
    {"number": 2, "text": "x"},
]


@pytest.mark.parametrize("index", [0, 1])
def test_text_and_equality_are_those_of_attrs(index: int) -> None:
    """For every two values: the same text, equal where attrs says so, and then the same hash."""
    ours, theirs = _pair(records.frozen)[index], _pair(attrs.frozen)[index]
    for one in ARGUMENTS:
        assert repr(ours(**one)) == repr(theirs(**one))
        for other in ARGUMENTS:
            equal = theirs(**one) == theirs(**other)
            assert (ours(**one) == ours(**other), ours(**one) != ours(**other)) == (equal, not equal)
            assert not equal or hash(ours(**one)) == hash(ours(**other))


def test_classes_are_told_apart() -> None:
    """A derived class' value is not the base's, nor anything else's; a class without fields has one value."""
    base, derived = _pair(records.frozen)
    assert base(number=1) != derived(number=1)
    assert base(number=1) != 1
    assert base(number=1).__eq__(1) is NotImplemented
    assert (Empty(), repr(Empty()), hash(Empty())) == (Empty(), "Empty()", hash(Empty()))
    assert len({Kept(value=1), Kept(value=1), Kept(value=2)}) == 2


def test_values_cannot_be_changed_and_can_be_copied() -> None:
    """Frozen and with slots; copies and pickles are equal."""
    kept = Kept(value=1, parts=("a",))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        kept.value = 2  # type: ignore[misc]  # what must fail
    assert not hasattr(kept, "__dict__")
    assert kept == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept)) == attrs.evolve(kept)
    assert attrs.asdict(kept) == {"value": 1, "parts": ("a",)}
    with pytest.raises(TypeError, match="unhashable"):
        hash(attrs.evolve(kept, parts=["a"]))  # type: ignore[arg-type]  # what must fail


def test_own_methods_and_identity_are_kept() -> None:
    """A class' own text and comparison stay; with eq=False only the same object is equal."""

    @records.frozen
    class Own:
        value: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    @records.frozen(eq=False)
    class Alone:
        value: int

    assert (Own(1) == Own(2), hash(Own(1)), repr(Own(1))) == (True, 5, "own")
    assert Alone(1) != Alone(1)
    assert repr(Alone(1)).endswith("Alone(value=1)")
