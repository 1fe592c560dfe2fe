"""What plugins build on, as data: hooks, the rank's context, types, errors, helpers, metrics, entry-point groups.

python -m tests.contract.freeze    # writes tests/contract/contract-1.json
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import attrs

from primus_core import contract, errors, experiment, outcome, plan, shape
from primus_core.contract import CONTRACT, HostSpec, RankContext, RankSpec
from primus_core.discovery import GROUPS
from primus_core.errors import raise_all
from primus_core.log.metrics import METRICS
from primus_core.parameters import check, coerce, load_schema, nearest
from primus_core.patching import apply_patches
from primus_core.planning.settings import core_schema, core_settings
from primus_core.quantities import memory_size

FILE = Path(__file__).parent / f"contract-{CONTRACT}.json"
Frozen = Mapping[str, Any]

TYPES = (experiment, plan, outcome, shape)

HELPERS = (check, coerce, load_schema, nearest, core_schema, core_settings, apply_patches, raise_all, memory_size)
"""Functions of core that plugins call beside the hooks."""


def current() -> Frozen:
    """The contract of the source as it is."""
    return {
        "contract": CONTRACT,
        "groups": sorted(GROUPS),
        "names": sorted(contract.__all__),
        "hooks": {spec.__name__: _hooks(spec) for spec in (HostSpec, RankSpec)},
        "rank": {"attributes": dict(RankContext.__annotations__), "methods": _methods(RankContext)},
        "types": {name: _fields(cls) for module in TYPES for name, cls in _types(module)},
        "choices": {name: found for module in (*TYPES, errors) for name, found in _choices(module)},
        "errors": {name: _signature(cls.__init__) for name, cls in _errors()},
        "helpers": {helper.__qualname__: _signature(helper) for helper in HELPERS},
        "metrics": {metric.name: metric.unit for metric in METRICS},
    }


def as_json(frozen: Frozen) -> str:
    return json.dumps(frozen, indent=2, sort_keys=True) + "\n"


def _hooks(spec: type) -> Frozen:
    marked = {name: vars(function)["primus_spec"] for name, function in _functions(spec)}
    return {
        name: {**_signature(function), "one answer": bool(marked[name]["firstresult"])}
        for name, function in _functions(spec)
    }


def _methods(protocol: type) -> Frozen:
    return {name: _signature(function) for name, function in _functions(protocol)}


def _functions(cls: type) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(cls).items() if inspect.isfunction(value) and name[0] != "_"]


def _signature(function: Any) -> Frozen:
    parameters = inspect.signature(function).parameters.values()
    return {
        "arguments": {one.name: _argument(one) for one in parameters if one.name != "self"},
        "returns": str(inspect.signature(function).return_annotation),
    }


def _argument(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.kind.description}: {parameter.annotation}{default}"


def _types(module: ModuleType) -> list[tuple[str, type]]:
    return [(name, cls) for name, cls in _own(module) if isinstance(cls, type) and attrs.has(cls)]


def _fields(cls: type) -> Frozen:
    # as they were written: the codec replaces `field.type` by what it means, once it has been used
    written = {name: text for base in reversed(cls.__mro__) for name, text in inspect.get_annotations(base).items()}
    return {
        field.name: f"{written[field.name]}{'' if field.default is attrs.NOTHING else ', optional'}"
        for field in attrs.fields(cls)
    }


def _choices(module: ModuleType) -> list[tuple[str, list[str]]]:
    """The values of each enumeration and each literal type."""
    found = []
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Enum) and value.__module__ == module.__name__:
            found.append((name, [f"{one.name} = {one.value}" for one in value]))
        elif get_origin(value) is Literal:
            found.append((name, sorted(get_args(value))))
    return found


def _errors() -> list[tuple[str, type[Exception]]]:
    return [(name, cls) for name, cls in _own(errors) if isinstance(cls, type) and issubclass(cls, Exception)]


def _own(module: ModuleType) -> list[tuple[str, Any]]:
    found = vars(module).items()
    return [(name, value) for name, value in found if getattr(value, "__module__", "") == module.__name__]


if __name__ == "__main__":
    FILE.write_text(as_json(current()), encoding="utf-8")
