"""A JSON Schema of experiment files, from which an editor completes and checks them while they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from primus_core.explain.vocabulary import Vocabulary
from primus_core.parameters import Parameter
from primus_core.planning.sections import spellings

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER = r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"
_WHOLE = r"^[-+]?[0-9]+([eE][-+]?[0-9]+)?$"
_TYPES: Mapping[str, Json] = {
    "bool": {"type": "boolean"},
    "int": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": _WHOLE}]},
    "float": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": _NUMBER}]},
    "str": {"type": ["string", "number", "boolean"]},
    "map": {"type": "object"},
    "list": {"type": "array"},
}
_TEXT: Json = {"type": ["string", "number", "boolean"]}
_WORDS = {
    "work_group": "Folder of the team, below the workspace.",
    "user_name": "Folder of the user, below the team's.",
    "exp_name": "Folder of the experiment, below the user's.",
    "workspace": "The only folder that a run writes to; relative to the current folder.",
}
_LAUNCHERS = {
    "direct": "Ranks on this host, started with torchrun.",
    "ssh": "Ranks on hosts that are reached by ssh.",
    "container": "Ranks in a container.",
    "slurm": "Ranks that Slurm starts.",
}


def experiment_schema(framework: str, words: Vocabulary) -> Json:
    """JSON Schema (draft 2020-12) of an experiment file whose modules use one back end.

    What the configuration refuses is refused, save what one file does not say: whether others, that extend it or
    that it extends, have the rest. Where a value may be one, so may text with ``${...}``.
    """
    text = _words()
    return {
        "$schema": DIALECT,
        "title": f"Primus experiment for {framework}",
        "description": f"An experiment file of Primus, with the parameters of {words.library or framework}.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **text,
            "extends": {
                "description": "A file, or a list of files, that this one builds on; relative to this file.",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            },
            "env": _environment(),
            "platform": {"type": ["object", "null"], "description": "Read by runs that have a use for it."},
            **{name: _launcher(name, words.options) for name in _LAUNCHERS},
            "modules": {
                "type": "object",
                "description": "What is trained; a run has one module.",
                "minProperties": 1,
                "additionalProperties": {"$ref": "#/$defs/module"},
            },
        },
        "$defs": {**_definitions(), "module": _module(framework), "parameters": _parameters(words)},
    }


def _words() -> Json:
    return {name: {"description": text, **_TEXT} for name, text in _WORDS.items()}


def _environment() -> Json:
    return {
        "type": ["object", "null"],
        "description": "Environment variables of every rank.",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    }


def _launcher(name: str, options: Mapping[str, Parameter]) -> Json:
    known = {key.removeprefix(f"{name}."): one for key, one in options.items() if key.startswith(f"{name}.")}
    section: Json = {"type": ["object", "null"], "description": _LAUNCHERS[name]}
    if known:
        section |= {
            "properties": {other: _parameter(one) for key, one in known.items() for other in spellings(name, key)},
            "additionalProperties": False,
        }
    return section


def _module(framework: str) -> Json:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "framework": {"description": "The back end.", **_or_reference({"const": framework})},
            "config": {"description": "Module preset: how to train.", "type": "string"},
            "model": {"description": "Model preset: what to train.", "type": "string"},
            "overrides": {"$ref": "#/$defs/parameters"},
        },
    }


def _parameters(words: Vocabulary) -> Json:
    """Dotted names may be written with dots, or as maps in maps."""
    foreign = {name: {"description": row.why, "deprecated": row.fate != "alias"} for name, row in words.foreign.items()}
    known = {**foreign, **{name: _parameter(parameter) for name, parameter in words.parameters.items()}}
    maps = [name for name, one in words.parameters.items() if one.type in ("map", "any")]
    entries: Json = {f"^{re.escape(name)}\\.": {} for name in (*maps, *words.foreign)}
    return {
        "type": ["object", "null"],
        "description": "Parameters of the library, and Primus' own.",
        "properties": {**_nested(known), **{name: one for name, one in known.items() if "." in name}},
        "patternProperties": entries,
        "additionalProperties": False,
    }


def _nested(known: Mapping[str, Json]) -> Json:
    """The schemas of one level of maps, from those of the dotted names below it."""
    below: dict[str, dict[str, Json]] = {}
    properties: Json = {}
    for name, schema in known.items():
        group, dot, rest = name.partition(".")
        if dot:
            below.setdefault(group, {})[rest] = schema
        else:
            properties[name] = schema
    for group, schemas in below.items():
        inside = {"type": ["object", "null"], "properties": _nested(schemas), "additionalProperties": False}
        properties[group] = {"anyOf": [properties[group], inside]} if group in properties else inside
    return properties


def _parameter(parameter: Parameter) -> Json:
    kind, _, item = parameter.type.partition("[")
    schema: Json = {"description": parameter.help} if parameter.help else {}
    schema["default"] = parameter.default
    if kind == "any":
        return schema
    if parameter.choices:
        one: Json = {"enum": list(parameter.choices)}
        return schema | {"anyOf": [one, *([_array(one)] if kind == "list" else []), *_ALWAYS]}
    if kind == "list":
        item = item.rstrip("]")
        return schema | {"$ref": f"#/$defs/list-{item}"}
    return schema | {"$ref": f"#/$defs/{kind}"}


_ALWAYS: tuple[Json, ...] = ({"$ref": "#/$defs/reference"}, {"type": "null"})
"""What may stand for every value: null clears, or takes the library's default."""


def _definitions() -> Json:
    scalars = {kind: {"anyOf": [schema, *_ALWAYS]} for kind, schema in _TYPES.items() if kind != "list"}
    lists = {f"list-{kind}": _list(_TYPES.get(kind, {})) for kind in ("int", "float", "str", "any")}
    reference = {"type": "string", "pattern": r"\$\{", "description": "A value from the environment."}
    return {"reference": reference, **scalars, **lists}


def _list(item: Json) -> Json:
    """A scalar is a list of one."""
    return {"anyOf": [_array(item), *([item] if item else [{"not": {"type": "object"}}]), *_ALWAYS]}


def _array(item: Json) -> Json:
    return {"type": "array", "items": {"anyOf": [item, _ALWAYS[0]]} if item else {}}


def _or_reference(schema: Json) -> Json:
    return {"anyOf": [schema, _ALWAYS[0]]}
