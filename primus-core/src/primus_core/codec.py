"""JSON for every type that crosses a process boundary, through cattrs."""

from __future__ import annotations

import json
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError

from primus_core.errors import ConfigError
from primus_core.experiment import Value

T = TypeVar("T")


def to_json(obj: object, *, indent: int | None = 2) -> str:
    """Text of any Primus type; the same object always gives the same bytes."""
    return json.dumps(_converter().unstructure(obj), indent=indent, ensure_ascii=False) + "\n"


def from_json(cls: type[T], text: str, *, source: str = "") -> T:
    """Read back what `to_json` wrote.

    Raises:
        ConfigError: the text is no JSON, or does not fit ``cls``; names each path, like ``$.task.kind``.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError("not valid JSON", where=source, why=str(error)) from None
    if not isinstance(data, dict):
        raise ConfigError(f"not a {cls.__name__}", where=source, why=f"a map is needed @ $, not {type(data).__name__}")
    try:
        return _converter().structure(data, cls)
    except BaseValidationError as error:
        raise ConfigError(f"not a {cls.__name__}", where=source, why="\n".join(transform_error(error))) from None


@cache
def _converter() -> Converter:
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
