"""Portable parameters as core reads them itself, before or beside a back end."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf
from primus_core.parameters import Parameter, coerce, portable
from primus_core.plan import Translation

_SIMPLE = ("bool", "int", "float")


def typed_params(params: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """The parameters with portable numbers and switches in their types: ``"8"`` is 8, ``${MOCK:1}`` is true.

    What does not fit is left as it is, for the back end to tell.
    """
    known = portable()
    simple = {key for key in params if key in known and known[key].type in _SIMPLE}
    return {key: _typed(known[key], leaf) if key in simple else leaf for key, leaf in params.items()}


def with_native_spellings(
    params: Mapping[str, Leaf], translation: Translation, natives: Mapping[str, str]
) -> dict[str, Leaf]:
    """The parameters, with the portable ones that were set by the library's own name under their portable name too.

    Args:
        natives: the library's name of each portable parameter.
    """
    asked = {row.native: row for row in translation.mapping if row.path in params}
    rows = {name: asked[native] for name, native in natives.items() if native in asked}
    told = {
        name: evolve(params[row.path], value=row.value, text=None) for name, row in rows.items() if row.path != name
    }
    return {**params, **told}


def _typed(parameter: Parameter, leaf: Leaf) -> Leaf:
    if not (leaf.variables or isinstance(leaf.value, str) or parameter.type == "bool"):
        return leaf
    try:
        value = coerce(parameter, leaf)
    except ConfigError:
        return leaf
    return leaf if type(value) is type(leaf.value) else evolve(leaf, value=value)
