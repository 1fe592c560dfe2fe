"""What the user and the presets ask of TorchTitan, by its own names, typed; and everything wrong about it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

from attrs import define, field, frozen

from primus_backend_torchtitan.host.entries import NATIVE as CONVERTERS
from primus_backend_torchtitan.host.entries import wrong_entries
from primus_backend_torchtitan.host.flavors import NAMES as FLAVOR
from primus_backend_torchtitan.host.flavors import flavor_of
from primus_backend_torchtitan.host.foreign import foreign_keys, sort_names
from primus_backend_torchtitan.host.portable import ARCHITECTURE, RULES
from primus_backend_torchtitan.host.schema import kinds_for, portable_schema, schema_for
from primus_backend_torchtitan.sections import SECTIONS
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters import ForeignKey, Parameter, Schema, check, coerce, owner_of
from primus_core.plan import Unused


@frozen(kw_only=True)
class Wish:
    """One native parameter that was asked for."""

    path: str
    """The spelling in the experiment."""
    leaf: Leaf
    asked: Value
    """The value as it was written, typed."""
    value: Value
    """The same in TorchTitan's words."""
    why: str = ""
    """Why the two differ."""


@frozen(kw_only=True)
class Asked:
    """Everything that was set."""

    wishes: Mapping[str, Wish]
    """By native path."""
    read: Mapping[str, Value]
    """Options of converters that stand in sections of their own, by their former names."""
    unused: tuple[Unused, ...]
    errors: tuple[ConfigError, ...]


@define
class _Reading:
    wishes: dict[str, Wish] = field(factory=dict)
    unused: list[Unused] = field(factory=list)
    errors: list[ConfigError] = field(factory=list)


def read(params: Mapping[str, Leaf], version: str, core_names: Collection[str]) -> Asked:
    """Resolve names and types. Problems are collected, not raised.

    Args:
        version: of TorchTitan.
        core_names: parameters that core itself reads; they are left out.
    """
    schema = schema_for(version)
    own = {path: leaf for path, leaf in params.items() if owner_of(path, core_names) is None}
    known = {path: leaf for path, leaf in own.items() if path in schema.parameters or path in RULES}
    names = sort_names(own, known)
    reading = _Reading(unused=list(names.unused), errors=list(names.errors))
    _read_native({path: leaf for path, leaf in names.others.items() if path not in RULES}, schema, core_names, reading)
    _read_aliases(names.aliases, schema, reading)
    _read_portable({path: leaf for path, leaf in names.others.items() if path in RULES}, schema, reading)
    _read_flavor(own, reading)
    reading.errors += _of_other_kinds(reading.wishes, kinds_for(version))
    if CONVERTERS in reading.wishes:
        wish = reading.wishes[CONVERTERS]
        reading.errors += wrong_entries(wish.value, wish.leaf)
    return Asked(wishes=reading.wishes, read=names.read, unused=tuple(reading.unused), errors=tuple(reading.errors))


def _read_native(params: Mapping[str, Leaf], schema: Schema, core_names: Collection[str], reading: _Reading) -> None:
    # `optimizer` is a portable name and a group of TorchTitan's, whose members are not its entries.
    groups = {native.partition(".")[0] for native in schema.parameters if "." in native}
    others = [name for name in RULES if name not in groups]
    values, errors = check(params, schema, also=(*core_names, *others, *foreign_keys()))
    reading.errors += errors
    for path, value in values.items():
        leaf = next(leaf for key, leaf in params.items() if key == path or key.startswith(f"{path}."))
        reading.wishes[path] = Wish(path=path, leaf=leaf, asked=value, value=value)
    for path, leaf in params.items():
        if leaf.value is None and owner_of(path, values) is None:
            _read_null(path, leaf, reading)


def _read_null(path: str, leaf: Leaf, reading: _Reading) -> None:
    """Null switches a section off that can be; elsewhere it means the library's default."""
    if path in SECTIONS and "none" in SECTIONS[path].kinds:
        wish = Wish(path=path, leaf=leaf, asked=None, value="none", why="null switches the section off")
        reading.wishes.setdefault(f"{path}.kind", wish)
    else:
        reading.unused.append(Unused(path=path, why="null: TorchTitan's default is used"))


def _read_aliases(aliases: Mapping[str, tuple[ForeignKey, Leaf]], schema: Schema, reading: _Reading) -> None:
    """Former names of TorchTitan's parameters; null leaves its default."""
    for path, (key, leaf) in aliases.items():
        parameter = schema.parameters[key.native]
        if leaf.value is None and not parameter.nullable:
            reading.unused.append(Unused(path=path, why="null: TorchTitan's default is used"))
            continue
        value = _typed(path, parameter, leaf, reading)
        if value is not None or leaf.value is None:
            _add(key.native, Wish(path=path, leaf=leaf, asked=value, value=value), reading)


def _typed(path: str, parameter: Parameter, leaf: Leaf, reading: _Reading) -> Value:
    """The value in a parameter's type; None, and an error by the experiment's name, where it does not fit."""
    try:
        return coerce(parameter, leaf)
    except ConfigError as error:
        what = error.what.replace(parameter.name, path)
        reading.errors.append(ConfigError(what, where=error.where, why=error.why, remedy=error.remedy))
        return None


def _read_flavor(params: Mapping[str, Leaf], reading: _Reading) -> None:
    """The sizes of a flavor, where nobody sets them."""
    try:
        flavor, leaves = flavor_of(params)
    except ConfigError as error:
        reading.errors.append(error)
        return
    if leaves:
        _take_back_sizes(leaves, reading)
    why = f"of TorchTitan's {flavor}, which {' and '.join(f'`{name}`' for name in FLAVOR)} name"
    for name, leaf in leaves.items():
        native = RULES[name].native
        wish = Wish(path=native, leaf=leaf, asked=None, value=coerce(portable_schema().parameters[name], leaf), why=why)
        reading.wishes.setdefault(native, wish)


def _take_back_sizes(flavor: Mapping[str, Leaf], reading: _Reading) -> None:
    """Of a model that a weaker layer describes, nothing is left where a flavor is chosen."""
    strength = max(leaf.origin.strength for leaf in flavor.values())
    weaker = [native for native, wish in reading.wishes.items() if wish.leaf.origin.strength < strength]
    for native in weaker:
        if native.removeprefix("model.") in ARCHITECTURE:
            path = reading.wishes.pop(native).path
            why = f"overridden by `{FLAVOR[1]}`, which chooses another model"
            reading.unused.append(Unused(path=path, why=why, overridden_by=FLAVOR[1]))


def _read_portable(params: Mapping[str, Leaf], schema: Schema, reading: _Reading) -> None:
    values, errors = check(params, portable_schema())
    reading.errors += errors
    for name, value in values.items():
        rule, leaf = RULES[name], params[name]
        if not rule.native:
            reading.unused.append(Unused(path=name, why=rule.why))
        elif value is None:
            _read_portable_null(name, leaf, schema, reading)
        else:
            wish = _in_its_words(name, value, leaf, schema, reading)
            if wish is not None:
                _add(rule.native, wish, reading)


def _read_portable_null(name: str, leaf: Leaf, schema: Schema, reading: _Reading) -> None:
    native = RULES[name].native
    if native.startswith("model.") or schema.parameters[native].nullable:
        _add(native, Wish(path=name, leaf=leaf, asked=None, value=None), reading)
    else:
        reading.unused.append(Unused(path=name, why="null: TorchTitan's default is used"))


def _in_its_words(name: str, value: Value, leaf: Leaf, schema: Schema, reading: _Reading) -> Wish | None:
    """A portable value as TorchTitan calls it; an error where it has no word for it."""
    rule = RULES[name]
    if rule.words:
        if not isinstance(value, (bool, str)) or value not in rule.words:
            reading.errors.append(_no_word(name, value, leaf))
            return None
        return Wish(path=name, leaf=leaf, asked=value, value=rule.words[value], why=rule.why)
    typed = _typed(name, schema.parameters[rule.native], Leaf(value=value, origin=leaf.origin), reading)
    return None if typed is None else Wish(path=name, leaf=leaf, asked=value, value=typed)


def _add(native: str, wish: Wish, reading: _Reading) -> None:
    """The stronger layer wins; in one layer, two values that differ are a contradiction."""
    other = reading.wishes.get(native)
    if other is None:
        reading.wishes[native] = wish
        return
    here, there = wish.leaf.origin.strength, other.leaf.origin.strength
    if wish.value == other.value:
        why = f"says the same as `{other.path}` ({other.leaf.origin})"
        reading.unused.append(Unused(path=wish.path, why=why))
    elif here > there:
        reading.unused.append(_overridden(other, wish))
        reading.wishes[native] = wish
    elif there > here:
        reading.unused.append(_overridden(wish, other))
    else:
        reading.errors.append(_contradiction(wish, other))


def _overridden(weak: Wish, strong: Wish) -> Unused:
    origin = strong.leaf.origin
    why = f"overridden by `{strong.path}`, the same parameter ({origin}, {origin.layer})"
    return Unused(path=weak.path, why=why, overridden_by=strong.path)


def _contradiction(wish: Wish, other: Wish) -> ConfigError:
    return ConfigError(
        f"`{wish.path}` is {_yaml(wish.asked)} and `{other.path}` is {_yaml(other.asked)}",
        where=f"{wish.leaf.origin}, {other.leaf.origin}",
        why=f"they are one parameter: {_whose(wish.path)}, {_whose(other.path)}",
        remedy=f"keep one of them; {_best(wish, other)}",
    )


def _whose(path: str) -> str:
    if path in RULES:
        return f"`{path}` is the portable name"
    return f"`{path}` is its name before 0.3" if path in foreign_keys() else f"`{path}` is TorchTitan's"


def _best(*wishes: Wish) -> str:
    portable = [wish.path for wish in wishes if wish.path in RULES]
    present = [wish.path for wish in wishes if wish.path not in foreign_keys()]
    if portable:
        return f"`{portable[0]}` is understood by every back end"
    return f"`{present[0]}` is the present name" if present else "both are former names"


def _no_word(name: str, value: Value, leaf: Leaf) -> ConfigError:
    words = ", ".join(map(_yaml, RULES[name].words))
    return ConfigError(
        f"`{name}` cannot be {_yaml(value)}",
        where=str(leaf.origin),
        why="TorchTitan has nothing like it",
        remedy=f"write {words}, or choose with TorchTitan's own `{RULES[name].native}`",
    )


def _of_other_kinds(wishes: Mapping[str, Wish], kinds: Mapping[str, tuple[str, ...]]) -> Iterator[ConfigError]:
    """One error for each parameter that the chosen kind of its section does not have."""
    for native, wish in wishes.items():
        section = native.rpartition(".")[0]
        if native not in kinds or section not in SECTIONS:
            continue
        chooser = wishes.get(f"{section}.kind")
        kind = chooser.value if chooser else SECTIONS[section].default
        if kind not in kinds[native]:
            yield ConfigError(
                f"`{wish.path}` does nothing where `{section}.kind` is {kind}",
                where=str(wish.leaf.origin),
                why=f"it is a parameter of: {', '.join(kinds[native])}",
                remedy=f"set `{section}.kind: {kinds[native][0]}`, or remove it",
            )


def _yaml(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
