"""Typing one value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping

from attrs import evolve

from primus_core.experiment import Leaf, Value
from primus_core.parameters.messages import empty_variable, no_choice, not_finite, python_null, wrong_type
from primus_core.parameters.schema import Parameter

_INT = re.compile(r"[-+]?[0-9]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


_LONGEST_EXPONENT = 3
"""Digits; a finite number with more is ``0e9999``, which nobody means, and Python's decimals may refuse."""
_TAKE_TEXT = ("str", "list[str]", "any")
_BOOLS_OF_SHELLS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


class _MismatchError(Exception):
    """A value is not of the wanted type."""


def coerce(parameter: Parameter, leaf: Leaf) -> Value:
    """The leaf's value in the parameter's type.

    Numbers may be written as text (``"50"``), text parameters keep what was written (``0123``), a scalar is a
    list of one, and nothing but ``true``, ``false`` and the numbers 1 and 0 (as scripts for Megatron write them) is a
    bool; of an environment variable, also the other words of shells (``yes``, ``off``).

    Raises:
        ConfigError: the value has another type, is infinite or no number (``.inf``, ``.nan``), is none of the
            parameter's choices, is an environment variable that is empty, or is ``None``, which is null in Python only.
    """
    if leaf.value is None and parameter.nullable:
        return None
    if leaf.value == "None" and parameter.type != "any" and "None" not in parameter.choices:
        raise python_null(parameter, leaf)
    if leaf.variables and parameter.type not in _TAKE_TEXT:
        if leaf.value == "":
            raise empty_variable(parameter, leaf)
        if parameter.type == "bool":
            leaf = evolve(leaf, value=_of_shell(leaf))
    try:
        value = _convert(parameter.type, leaf.value, leaf.text)
    except _MismatchError:
        raise wrong_type(parameter, leaf) from None
    for number in _floats(value) if isinstance(value, (float, list, dict)) else ():
        if not math.isfinite(number):
            raise not_finite(parameter, leaf, number)
    for item in _items(value) if parameter.choices else ():
        if item not in parameter.choices:
            raise no_choice(parameter, leaf, item)
    return value


def _of_shell(leaf: Leaf) -> Value:
    """The bool that a variable's text means; the leaf's own value where it means none."""
    word = leaf.text if isinstance(leaf.text, str) else leaf.value
    return _BOOLS_OF_SHELLS.get(word.strip().lower(), leaf.value) if isinstance(word, str) else leaf.value


def _floats(value: Value) -> Iterator[float]:
    """Every floating-point number in a value, at any depth."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _floats(item)


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
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
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
    from decimal import Decimal  # here: few numbers need it

    if not _FLOAT.fullmatch(written) or "e" not in written.lower() or not math.isfinite(float(written)):
        raise _MismatchError
    if len(written.lower().partition("e")[2].lstrip("+-0")) > _LONGEST_EXPONENT:
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
