"""Typing everything that was set."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters.coercion import coerce
from primus_core.parameters.messages import members, unknown
from primus_core.parameters.schema import Parameter, Schema

_MOST_GUESSES = 50
"""Wrong parameters after which no nearest name is searched, which takes milliseconds for each."""


def check(
    params: Mapping[str, Leaf], schema: Schema, *, also: Collection[str] = ()
) -> tuple[dict[str, Value], list[ConfigError]]:
    """Type every parameter that was set.

    ``params`` has dotted names; ``profiler.steps`` is an entry of a parameter ``profiler`` that takes a map.
    Null for a parameter that cannot be null takes back what a weaker layer set: it has no value (see `cleared`).

    Args:
        also: names that somebody else checks: they are known, and not in the result.

    Returns:
        The typed values of those that were set, and one error for each that is unknown or of the wrong type.
    """
    values: dict[str, Value] = {}
    errors: list[ConfigError] = []
    for key, leaf in params.items():
        if owner_of(key, also) is not None or _is_empty_group(key, leaf, schema):
            continue
        try:
            _check_one(key, leaf, schema, also, values, guess=len(errors) < _MOST_GUESSES)
        except ConfigError as error:
            errors.append(error)
    return values, errors


def cleared(params: Mapping[str, Leaf], values: Mapping[str, Value]) -> list[str]:
    """The parameters among those that `check` found right which null took back: the library's default is used."""
    return [key for key, leaf in params.items() if leaf.value is None and owner_of(key, values) is None]


def owner_of(key: str, names: Collection[str]) -> str | None:
    """The name that a dotted key is, or is an entry of."""
    while key not in names:
        key, dot, _ = key.rpartition(".")
        if not dot:
            return None
    return key


def _check_one(
    key: str, leaf: Leaf, schema: Schema, also: Collection[str], values: dict[str, Value], *, guess: bool
) -> None:
    owner = owner_of(key, schema.parameters)
    if owner is None or (owner != key and schema.parameters[owner].type not in ("map", "any")):
        raise unknown(key, leaf, schema, also, guess=guess)
    if owner == key:
        parameter = schema.parameters[key]
        if leaf.value is not None or parameter.nullable:
            values[key] = coerce(parameter, leaf)
    else:
        entry = coerce(Parameter(name=key, type="any"), leaf)
        _insert(values, [owner, *key[len(owner) + 1 :].split(".")], entry)


def _insert(values: dict[str, Value], path: list[str], value: Value) -> None:
    """Set an entry of a nested map, making the maps on the way."""
    for part in path[:-1]:
        child = values.get(part)
        if not isinstance(child, dict):
            child = values[part] = {}
        values = child
    values[path[-1]] = value


def _is_empty_group(key: str, leaf: Leaf, schema: Schema) -> bool:
    return leaf.value in ({}, None) and key not in schema.parameters and bool(members(key, schema.parameters))
