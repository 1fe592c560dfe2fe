"""Every text of a value, changed: to redact it, or to write it as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import attrs

from primus_core.codec import to_json

T = TypeVar("T")


def with_texts(value: T, change: Callable[[str], str]) -> T:
    """The same value of Primus' own types, with each text in it changed."""
    return cast(T, _changed(value, lambda leaf: change(leaf) if isinstance(leaf, str) else leaf))


def strict_json(value: object) -> str:
    """JSON; a number that is not finite is a text, as in ``metrics.jsonl``."""
    return to_json(_changed(value, _finite))


def _finite(leaf: object) -> object:
    if not isinstance(leaf, float) or math.isfinite(leaf):
        return leaf
    return "NaN" if math.isnan(leaf) else "Infinity" if leaf > 0 else "-Infinity"


def _changed(value: Any, change: Callable[[object], object]) -> Any:
    if attrs.has(type(value)):
        fields = (field.name for field in attrs.fields(type(value)))
        return attrs.evolve(value, **{name: _changed(getattr(value, name), change) for name in fields})
    if isinstance(value, Mapping):
        return {name: _changed(item, change) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_changed(item, change) for item in value)
    return change(value)
