"""Core's own parameters of a module, typed and with defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Leaf, Module, Value
from primus_core.parameters import Schema, check, load_schema, owner_of
from primus_core.plan import Settings

_SIZES = ("log_max_bytes", "log_backups")


@cache
def core_schema() -> Schema:
    """The parameters that core reads itself and no back end ever sees."""
    return load_schema((Path(__file__).parent.parent / "core_parameters.json").read_text(encoding="utf-8"))


def core_settings(module: Module) -> Settings:
    """Defaults and what the module sets.

    Raises:
        ConfigError: a value has the wrong type, a size is below zero, or a parameter that is no map has entries;
            names file and line.
    """
    schema = core_schema()
    own: Mapping[str, Leaf] = {key: leaf for key, leaf in module.params.items() if owner_of(key, schema.parameters)}
    values, errors = check(own, schema)
    raise_all([*errors, *_below_zero(values, own)])
    defaults = {name: parameter.default for name, parameter in schema.parameters.items()}
    return Settings(values={**defaults, **values})


def _below_zero(values: Mapping[str, Value], own: Mapping[str, Leaf]) -> Iterator[ConfigError]:
    for name in _SIZES:
        number = values.get(name)
        if isinstance(number, int) and number < 0:
            where = str(own[name].origin)
            yield ConfigError(f"`{name}` is {number}", where=where, remedy="Use 0 or more.")
