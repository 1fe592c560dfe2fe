"""The parameters a library has: their types, and how a user's values are checked against them."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from typing import Literal, cast

from attrs import field, frozen

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value

Type = Literal["bool", "int", "float", "str", "list[int]", "list[float]", "list[str]", "list[any]", "map", "any"]

_WANTED: dict[str, str] = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list[int]": "a list of whole numbers",
    "list[float]": "a list of numbers",
    "list[str]": "a list of texts",
    "list[any]": "a list",
    "map": "a map",
    "any": "any value",
}
_INT = re.compile(r"[-+]?[0-9]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@frozen(kw_only=True)
class Parameter:
    """One parameter of a library, as its schema file describes it."""

    name: str
    type: Type
    default: Value = None
    choices: tuple[Value, ...] = ()
    """The values allowed (of each element, for a list); empty: every value of the type."""
    nullable: bool = False
    help: str = ""


@frozen(kw_only=True)
class Schema:
    """All parameters of one version of a library."""

    library: str
    version: str
    parameters: Mapping[str, Parameter] = field(factory=dict)

    @property
    def defaults(self) -> dict[str, Value]:
        """The library's own value of each parameter."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    def __str__(self) -> str:
        return f"{self.library} {self.version}".strip()


class _MismatchError(Exception):
    """A value is not of the wanted type."""


def load_schema(text: str) -> Schema:
    """Read a schema file: ``{"library", "version", "parameters": {name: {"type", "default", ...}}}``.

    A parameter whose default is null may be null unless ``"nullable": false`` says otherwise.

    Raises:
        ValueError: the file is not a schema. Schema files ship with a package, so this is a packaging fault.
    """
    content = json.loads(text)
    return Schema(
        library=content["library"],
        version=content["version"],
        parameters={name: _parameter(name, row) for name, row in content["parameters"].items()},
    )


def _parameter(name: str, row: Mapping[str, Value]) -> Parameter:
    if row.get("type") not in _WANTED:
        raise ValueError(f"parameter {name}: unknown type {row.get('type')!r}")
    default = row.get("default")
    return Parameter(
        name=name,
        type=cast(Type, row["type"]),
        default=default,
        choices=tuple(cast("list[Value]", row.get("choices") or [])),
        nullable=bool(row.get("nullable", default is None)),
        help=str(row.get("help", "")),
    )


def coerce(parameter: Parameter, leaf: Leaf) -> Value:
    """The leaf's value in the parameter's type.

    Numbers may be written as text (``"50"``), text parameters keep what was written (``0123``), a scalar is a
    list of one, and nothing but ``true`` and ``false`` is a bool.

    Raises:
        ConfigError: the value has another type, or is none of the parameter's choices.
    """
    if leaf.value is None and parameter.nullable:
        return None
    try:
        value = _convert(parameter.type, leaf.value, leaf.text)
    except _MismatchError:
        raise _wrong_type(parameter, leaf) from None
    wrong = [item for item in _items(value) if parameter.choices and item not in parameter.choices]
    if wrong:
        raise _no_choice(parameter, leaf, wrong[0])
    return value


def check(
    params: Mapping[str, Leaf], schema: Schema, *, also: Collection[str] = ()
) -> tuple[dict[str, Value], list[ConfigError]]:
    """Type every parameter that was set.

    ``params`` has dotted names; ``profiler.steps`` is an entry of a parameter ``profiler`` that takes a map.

    Args:
        also: names that somebody else checks: they are known, and not in the result.

    Returns:
        The typed values of those that were set, and one error for each that is unknown or of the wrong type.
    """
    values: dict[str, Value] = {}
    errors: list[ConfigError] = []
    for key, leaf in params.items():
        if _owner(key, also) is not None or _is_empty_group(key, leaf, schema):
            continue
        try:
            _check_one(key, leaf, schema, also, values)
        except ConfigError as error:
            errors.append(error)
    return values, errors


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate a user most likely meant by a misspelled name; None when none is close."""
    by_key = {_fold(candidate): candidate for candidate in candidates}
    found = difflib.get_close_matches(_fold(name), by_key, n=1, cutoff=0.7)
    return by_key[found[0]] if found else None


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def _check_one(key: str, leaf: Leaf, schema: Schema, also: Collection[str], values: dict[str, Value]) -> None:
    owner = _owner(key, schema.parameters)
    if owner is None or (owner != key and schema.parameters[owner].type not in ("map", "any")):
        raise _unknown(key, leaf, schema, also)
    if owner == key:
        values[key] = coerce(schema.parameters[key], leaf)
    else:
        _insert(values, [owner, *key[len(owner) + 1 :].split(".")], leaf.value)


def _insert(values: dict[str, Value], path: list[str], value: Value) -> None:
    """Set an entry of a nested map, making the maps on the way."""
    for part in path[:-1]:
        child = values.get(part)
        if not isinstance(child, dict):
            child = values[part] = {}
        values = child
    values[path[-1]] = value


def _owner(key: str, names: Collection[str]) -> str | None:
    """The name that a dotted key is, or is an entry of."""
    while key not in names:
        key, dot, _ = key.rpartition(".")
        if not dot:
            return None
    return key


def _is_empty_group(key: str, leaf: Leaf, schema: Schema) -> bool:
    return leaf.value in ({}, None) and key not in schema.parameters and bool(_members(key, schema.parameters))


def _members(group: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(group + ".")]


def _convert(kind: str, value: Value, text: Value) -> Value:
    if kind.startswith("list["):
        return _list(kind[5:-1], value, text)
    return _CONVERTERS[kind](value, text)


def _list(kind: str, value: Value, text: Value) -> Value:
    if not isinstance(value, list):
        return [_convert(kind, value, text)]
    texts = text if isinstance(text, list) else [None] * len(value)
    return [_convert(kind, item, item_text) for item, item_text in zip(value, texts, strict=True)]


def _bool(value: Value, text: Value) -> bool:
    if isinstance(value, bool):
        return value
    raise _MismatchError


def _int(value: Value, text: Value) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    written = value if isinstance(value, str) else text
    if isinstance(value, bool) or not isinstance(written, str):
        raise _MismatchError
    return int(written) if _INT.fullmatch(written) else _scientific(written)


def _scientific(written: str) -> int:
    """``1e3``: a whole number in the notation of a float; ``50.0`` and ``1.5`` are none."""
    if not _FLOAT.fullmatch(written) or "e" not in written.lower() or not math.isfinite(float(written)):
        raise _MismatchError
    number = Decimal(written)
    if number != number.to_integral_value():
        raise _MismatchError
    return int(number)


def _float(value: Value, text: Value) -> float:
    if isinstance(value, str) and _FLOAT.fullmatch(value) and math.isfinite(float(value)):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _MismatchError
    try:
        return float(value)
    except OverflowError:
        raise _MismatchError from None


def _str(value: Value, text: Value) -> str:
    if value is None or isinstance(value, (list, dict)):
        raise _MismatchError
    return text if isinstance(text, str) else str(value)


def _map(value: Value, text: Value) -> Value:
    if isinstance(value, dict):
        return value
    raise _MismatchError


def _any(value: Value, text: Value) -> Value:
    return value


_CONVERTERS: Mapping[str, Callable[[Value, Value], Value]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": _str,
    "map": _map,
    "any": _any,
}


def _items(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _shown(value: Value) -> str:
    """The value as a user would write it in YAML, cut to one line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _wrong_type(parameter: Parameter, leaf: Leaf) -> ConfigError:
    wanted = _WANTED[parameter.type] + (" or null" if parameter.nullable else "")
    if parameter.choices:
        remedy = "write one of: " + ", ".join(map(_shown, parameter.choices))
    else:
        example = "" if parameter.default is None else f", such as its default {_shown(parameter.default)}"
        remedy = f"write {wanted}{example}"
    return ConfigError(
        f"`{parameter.name}` takes {wanted}, not {_shown(leaf.value)}", where=str(leaf.origin), remedy=remedy
    )


def _no_choice(parameter: Parameter, leaf: Leaf, value: Value) -> ConfigError:
    meant = nearest(str(value), [str(choice) for choice in parameter.choices])
    hint = f"did you mean {meant}? " if meant else ""
    return ConfigError(
        f"`{parameter.name}` cannot be {_shown(value)}",
        where=str(leaf.origin),
        remedy=f"{hint}write one of: {', '.join(map(_shown, parameter.choices))}",
    )


def _unknown(key: str, leaf: Leaf, schema: Schema, also: Collection[str]) -> ConfigError:
    names = [*schema.parameters, *also]
    members = _members(key, names)
    meant = nearest(key, names)
    if members:
        remedy = f"`{key}` is a group: set one of its parameters, such as `{members[0]}`"
    elif meant:
        remedy = f"did you mean `{meant}`?"
    else:
        remedy = "remove it, or look up the parameter's name"
    return ConfigError(
        f"unknown parameter `{key}`",
        where=str(leaf.origin),
        why=f"{schema} has no parameter of this name",
        remedy=remedy,
    )
