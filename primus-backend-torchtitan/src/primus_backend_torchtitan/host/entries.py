"""The entries of ``model.converters``: their kinds, the fields of each, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from primus_backend_torchtitan.sections import CONVERTERS, FORMER_CONVERTERS
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters import Parameter, Schema, check, nearest

NATIVE = "model.converters"
WITHOUT_EFFECT = "primus_turbo"
"""A converter of another product, whose kernels compute the same."""

_FIELDS: Mapping[str, tuple[Parameter, ...]] = {
    "float8_linear": (
        Parameter(name="recipe_name", type="str", default="rowwise", choices=("rowwise", "rowwise_with_gw_hp")),
        Parameter(name="filter_fqns", type="list[str]", default=[]),
        Parameter(name="emulate", type="bool", default=False),
    ),
    "float8_grouped_experts": (),
    "mxfp8_linear": (Parameter(name="fqns", type="list[str]", default=[]),),
    "mxfp8_grouped_experts": (
        Parameter(name="recipe_name", type="str", default="mxfp8_rceil", choices=("mxfp8_rceil",)),
        Parameter(name="pad_multiple", type="int", default=32),
    ),
    "nvfp4_linear": (Parameter(name="fqns", type="list[str]", default=[]),),
}
_OF_ALL = (
    Parameter(name="kind", type="str", choices=tuple(CONVERTERS)),
    Parameter(name="model_compile_enabled", type="bool", default=False),
)


def fields_of(kind: str) -> Schema:
    """What an entry of a kind may have."""
    parameters = (*_OF_ALL, *_FIELDS.get(kind, ()))
    return Schema(library=f"converter {kind}", version="", parameters={one.name: one for one in parameters})


def wrong_entries(value: Value, leaf: Leaf) -> Iterator[ConfigError]:
    """One error for each entry that is no converter, or has a field that its kind does not have."""
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict):
            yield from _wrong_fields(entry, leaf)
        elif entry not in FORMER_CONVERTERS and entry != WITHOUT_EFFECT:
            yield _unknown_kind(entry, leaf)


def _wrong_fields(entry: Mapping[str, Value], leaf: Leaf) -> Iterator[ConfigError]:
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in CONVERTERS:
        yield _unknown_kind(kind, leaf)
        return
    leaves = {name: Leaf(value=value, origin=leaf.origin) for name, value in entry.items()}
    for error in check(leaves, fields_of(kind))[1]:
        what = f"an entry of `{NATIVE}`, kind {kind}: {error.what}"
        yield ConfigError(what, where=error.where, why=error.why, remedy=error.remedy)


def _unknown_kind(kind: Value, leaf: Leaf) -> ConfigError:
    meant = nearest(str(kind), (*CONVERTERS, *FORMER_CONVERTERS))
    known = ", ".join(CONVERTERS)
    return ConfigError(
        f"`{NATIVE}` has an entry of no known kind: {json.dumps(kind, ensure_ascii=False)}",
        where=str(leaf.origin),
        remedy=f"did you mean {meant}?" if meant else f"write maps such as `- kind: float8_linear`; kinds: {known}",
    )
