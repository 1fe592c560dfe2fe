"""What the user and the presets ask of TorchTitan, by its own names, typed; and everything wrong about it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

from attrs import define, field, frozen

from primus_backend_torchtitan.host.portable import RULES
from primus_backend_torchtitan.host.schema import kinds_for, portable_schema, schema_for
from primus_backend_torchtitan.sections import SECTIONS
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters import Schema, check, coerce, owner_of
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
    reading = _Reading()
    own = {path: leaf for path, leaf in params.items() if owner_of(path, core_names) is None}
    _read_native({path: leaf for path, leaf in own.items() if path not in RULES}, schema, core_names, reading)
    _read_portable({path: leaf for path, leaf in own.items() if path in RULES}, schema, reading)
    reading.errors += _of_other_kinds(reading.wishes, kinds_for(version))
    return Asked(wishes=reading.wishes, unused=tuple(reading.unused), errors=tuple(reading.errors))


def _read_native(params: Mapping[str, Leaf], schema: Schema, core_names: Collection[str], reading: _Reading) -> None:
    # `optimizer` is a portable name and a group of TorchTitan's, whose members are not its entries.
    others = [name for name in RULES if not any(native.startswith(f"{name}.") for native in schema.parameters)]
    values, errors = check(params, schema, also=(*core_names, *others))
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
    try:
        typed = coerce(schema.parameters[rule.native], Leaf(value=value, origin=leaf.origin))
    except ConfigError as error:
        said = ConfigError(error.what.replace(rule.native, name), where=error.where, why=error.why, remedy=error.remedy)
        reading.errors.append(said)
        return None
    return Wish(path=name, leaf=leaf, asked=value, value=typed)


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
        why="they are one parameter: the first is the portable name, the second is TorchTitan's",
        remedy=f"keep one of them; `{wish.path}` is understood by every back end",
    )


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
