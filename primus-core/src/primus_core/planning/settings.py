"""Core's own parameters of a module, typed and with defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Leaf, Module, Value
from primus_core.parameters import Schema, check, coerce, load_schema, owner_of
from primus_core.plan import Settings

_SMALLEST = {"log_max_bytes": 0, "log_backups": 0, "keep_last_checkpoints": 1, "keep_every_checkpoint": 1}


@cache
def core_schema() -> Schema:
    """The parameters that core reads itself and no back end ever sees."""
    return load_schema((Path(__file__).parent.parent / "core_parameters.json").read_text(encoding="utf-8"))


def core_settings(module: Module) -> Settings:
    """Defaults and what the module sets.

    Raises:
        ConfigError: a value has the wrong type, a number is too small, or a parameter that is no map has entries;
            names file and line.
    """
    schema = core_schema()
    own: Mapping[str, Leaf] = {key: leaf for key, leaf in module.params.items() if owner_of(key, schema.parameters)}
    values, errors = check(own, schema)
    raise_all([*errors, *_too_small(values, own)])
    return Settings(values={**schema.defaults, **values})


def core_setting(module: Module, name: str) -> Value:
    """One of them, which is no map, where `core_settings` has found nothing wrong."""
    parameter, leaf = core_schema().parameters[name], module.params.get(name)
    if leaf is None or (leaf.value is None and not parameter.nullable):
        return parameter.default
    return coerce(parameter, leaf)


def _too_small(values: Mapping[str, Value], own: Mapping[str, Leaf]) -> Iterator[ConfigError]:
    for name, smallest in _SMALLEST.items():
        number = values.get(name)
        if isinstance(number, int) and number < smallest:
            where = str(own[name].origin)
            yield ConfigError(f"`{name}` is {number}", where=where, remedy=f"Use {smallest} or more.")
