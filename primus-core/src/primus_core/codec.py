"""JSON for every type that crosses a process boundary; cattrs reads it back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

from attrs import fields, has

from primus_core.errors import ConfigError
from primus_core.experiment import Value

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


def to_json(obj: object, *, indent: int | None = 2) -> str:
    """Text of any Primus type; the same object always gives the same bytes."""
    return json.dumps(obj, default=_plain, indent=indent, ensure_ascii=False) + "\n"


def from_json(cls: type[T], text: str, *, source: str = "") -> T:
    """Read back what `to_json` wrote.

    Raises:
        ConfigError: the text is no JSON, or does not fit ``cls``; names each path, like ``$.task.kind``.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter: nested a thousand times
        raise ConfigError("not valid JSON", where=source, why=str(error)) from None
    if not isinstance(data, dict):
        raise ConfigError(f"not a {cls.__name__}", where=source, why=f"a map is needed @ $, not {type(data).__name__}")
    from cattrs import transform_error  # here: see below
    from cattrs.errors import BaseValidationError

    try:
        return _converter().structure(data, cls)
    except BaseValidationError as error:
        raise ConfigError(f"not a {cls.__name__}", where=source, why="\n".join(transform_error(error))) from None


def _plain(obj: object) -> object:
    """A record or a mapping, as JSON has it. cattrs would first write a function for each class, which is dear."""
    if isinstance(obj, Mapping):
        return dict(obj)
    if has(cls := type(obj)):
        return {field.name: getattr(obj, field.name) for field in fields(cls)}
    raise TypeError(f"a {cls.__name__} is nothing that JSON has")


@cache
def _converter() -> Converter:
    from cattrs import Converter  # here: dear, and commands that only write do without

    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook_func(_is_value, lambda value, _: value)
    converter.register_structure_hook_func(lambda cls: cls is object, lambda value, _: value)
    return converter


def _is_value(cls: Any) -> bool:
    """Whether a type is `experiment.Value`: the only union here that holds both lists and maps."""
    if cls == Value:  # Python 3.10 leaves the alias, a text, as it is inside `Mapping[str, Value]`
        return True
    if get_origin(cls) not in (Union, UnionType):
        return False
    origins = {get_origin(arg) for arg in get_args(cls)}
    return list in origins and dict in origins
