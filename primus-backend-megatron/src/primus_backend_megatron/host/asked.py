"""What the user and the presets ask of Megatron, by its own names, typed; and everything wrong about it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping

from attrs import define, field, frozen

from primus_backend_megatron.host.foreign import foreign_row, names_left_out, switches
from primus_backend_megatron.host.names import REFUSED
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters import ForeignKey, Schema, check, cleared
from primus_core.parameters.foreign import unused
from primus_core.plan import Unused


@frozen(kw_only=True)
class Asked:
    """Parameters that were set, each by Megatron's name."""

    values: Mapping[str, Value]
    leaves: Mapping[str, Leaf]
    paths: Mapping[str, str]
    """The spelling in the experiment of each."""
    left_out: Mapping[str, Value]
    """Parameters of other products, by their own names."""
    unused: tuple[Unused, ...]
    errors: tuple[ConfigError, ...]


@define
class _Names:
    """The leaves sorted by what their names mean."""

    leaves: dict[str, Leaf] = field(factory=dict)
    paths: dict[str, str] = field(factory=dict)
    left_out: dict[str, Value] = field(factory=dict)
    unused: list[Unused] = field(factory=list)
    errors: list[ConfigError] = field(factory=list)


def read(params: Mapping[str, Leaf], schema: Schema, core_names: Collection[str]) -> Asked:
    """Resolve names and types. Problems are collected, not raised.

    Args:
        core_names: parameters that core itself reads; they are left out, and known to a misspelled one's message.
    """
    names = _resolve({path: leaf for path, leaf in params.items() if path not in core_names}, schema)
    values, errors = check(names.leaves, schema, also=names_left_out().union(core_names))
    if not errors:
        _take_back(names, cleared(names.leaves, values))
    return Asked(
        values=values,
        leaves=names.leaves,
        paths=names.paths,
        left_out=names.left_out,
        unused=tuple(names.unused),
        errors=(*names.errors, *errors, *_refused(names.leaves, values, schema)),
    )


def _resolve(params: Mapping[str, Leaf], schema: Schema) -> _Names:
    names, aliases, is_on = _Names(), list[tuple[ForeignKey, Leaf]](), switches(params, schema)
    for path, leaf in params.items():
        key = foreign_row(path, schema)
        if key is None:
            names.leaves[path] = leaf
            names.paths[path] = path
        elif key.fate == "alias":
            aliases.append((key, leaf))
        else:
            names.left_out[path] = leaf.value
            try:
                names.unused.append(unused(key, path, leaf, is_on))
            except ConfigError as error:
                names.errors.append(error)
    for alias, leaf in aliases:
        _add_alias(names, alias, leaf)
    return names


def _take_back(names: _Names, cleared: Iterable[str]) -> None:
    for name in cleared:
        del names.leaves[name]
        names.unused.append(Unused(path=names.paths.pop(name), why="null: Megatron's default is used"))


def _add_alias(names: _Names, alias: ForeignKey, leaf: Leaf) -> None:
    """The stronger layer wins; in one layer, two values that both ask for something and differ are a contradiction."""
    other = names.leaves.get(alias.native)
    if other is None:
        names.leaves[alias.native], names.paths[alias.native] = leaf, alias.name
        return
    here, there = leaf.origin.strength, other.origin.strength
    idle = leaf.value is None or leaf.value is False
    if leaf.value == other.value or (idle and here == there):
        names.unused.append(Unused(path=alias.name, why=f"`{alias.native}` says it ({other.origin})"))
    elif here > there or (here == there and other.value is None):
        names.unused.append(_overridden(names.paths[alias.native], alias.name, leaf))
        names.leaves[alias.native], names.paths[alias.native] = leaf, alias.name
    elif there > here:
        names.unused.append(_overridden(alias.name, alias.native, other))
    else:
        names.errors.append(_contradiction(alias, leaf, other))


def _overridden(path: str, by: str, leaf: Leaf) -> Unused:
    why = f"overridden by `{by}`, the same parameter ({leaf.origin}, {leaf.origin.layer})"
    return Unused(path=path, why=why, overridden_by=by)


def _contradiction(alias: ForeignKey, leaf: Leaf, other: Leaf) -> ConfigError:
    return ConfigError(
        f"`{alias.name}` is {_yaml(leaf.value)} and `{alias.native}` is {_yaml(other.value)}",
        where=", ".join(dict.fromkeys((str(leaf.origin), str(other.origin)))),
        why=f"they are one parameter: {alias.why}",
        remedy=f"keep `{alias.native}` only; `{alias.name}: !unset` takes away what a file that is extended sets",
    )


def _refused(leaves: Mapping[str, Leaf], values: Mapping[str, Value], schema: Schema) -> Iterator[ConfigError]:
    for row in REFUSED:
        if row.name in values and values[row.name] not in (None, schema.parameters[row.name].default):
            yield ConfigError(
                f"`{row.name}` cannot be set in Primus",
                where=str(leaves[row.name].origin),
                why=row.why,
                remedy=row.remedy,
            )


def _yaml(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
