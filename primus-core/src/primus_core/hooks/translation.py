"""What core demands of every translation."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from primus_core.errors import ConfigError, DependencyError
from primus_core.experiment import Leaf, Module, Value
from primus_core.parameters import Parameter, Type, coerce
from primus_core.plan import Mapped, Translation


def check_translation(module: Module, translation: Translation, core_names: Collection[str]) -> None:
    """Check that each parameter that was set has exactly one fate, and that its row tells the truth.

    Mapped means: the library gets what was set, typed. Adjusted: it gets the value that the row names.
    A row for a group (``profiler``) speaks for its entries (``profiler.steps``).

    Args:
        core_names: parameters that core itself reads; the translation may leave them out.

    Raises:
        DependencyError: names the keys; it is a fault of the back end, not of the experiment.
    """
    problems = [*_fates(module, translation, core_names), *_contradictions(translation), *_changed(module, translation)]
    if problems:
        raise DependencyError(
            f"the back end {module.framework!r} does not account for every parameter",
            why="\n".join(problems),
            remedy="This is a fault of the back end's package: report it there. Removing the parameters avoids it.",
        )


def _fates(module: Module, translation: Translation, core_names: Collection[str]) -> Iterator[str]:
    """The parameters that have no fate, or several."""
    fates = {
        "mapped": {row.path for row in translation.mapping},
        "adjusted": {row.path for row in translation.adjusted},
        "unused": {row.path for row in translation.unused},
    }
    once = _in_one_only(*fates.values())
    for key in sorted(key for key in module.params if key not in once or "." in key):
        leaf, names = module.params[key], _with_groups(key)
        found = [fate for fate, paths in fates.items() if not paths.isdisjoint(names)]
        nothing_asked = leaf.value == {} or leaf.origin.layer == "default" or not names.isdisjoint(core_names)
        if len(found) > 1 or not (found or nothing_asked):
            yield f"`{key}` ({leaf.origin}) is {' and '.join(found) or 'neither mapped, adjusted nor unused'}"


def _in_one_only(*sets: set[str]) -> set[str]:
    """What is in exactly one of three sets."""
    one, two, three = sets
    return (one ^ two ^ three) - (one & two & three)


def _contradictions(translation: Translation) -> Iterator[str]:
    """Rows that promise a value which the library will not get."""
    for row in translation.mapping:
        if row.native not in translation.native:
            yield f"`{row.path}` is mapped to `{row.native}`, which is not among the native values"
        elif translation.native[row.native] != row.value:
            used = translation.native[row.native]
            yield f"`{row.path}` is mapped to `{row.native}` = {row.value!r}, and the native value is {used!r}"
    for change in translation.adjusted:
        used = translation.native.get(change.native, change.used)
        if used != change.used:
            told = f"`{change.native}` = {change.used!r}"
            yield f"`{change.path}` is adjusted to {told}, and the native value is {used!r}"


def _changed(module: Module, translation: Translation) -> Iterator[str]:
    """Parameters that are said to be mapped, and are not what was set."""
    rows = {row.path: row for row in translation.mapping}
    for key, leaf in module.params.items():
        for row in filter(None, map(rows.get, _with_groups(key) if "." in key else (key,))):
            told = _entry(row, key)
            if not _is_typed(told, leaf):
                yield f"`{key}` is {leaf.value!r} ({leaf.origin}), and is mapped as {told!r}"


def _entry(row: Mapped, key: str) -> Value:
    """What a row says of one key: its value, or an entry of it; None where it has no such entry."""
    value = row.value
    for part in key[len(row.path) :].split(".")[1:]:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _is_typed(told: Value, leaf: Leaf) -> bool:
    """Whether a value is the leaf's own in some type: 50 is ``"50"``, and ``[8]`` is 8."""
    if type(told) is type(leaf.value) and told == leaf.value:
        return True
    try:
        return coerce(Parameter(name="", type=_type(told), nullable=True), leaf) == told
    except ConfigError:
        return False


def _type(value: Value) -> Type:
    """The type of parameter that has such a value."""
    kinds: dict[type, Type] = {bool: "bool", int: "int", float: "float", str: "str", dict: "map"}
    lists: dict[type, Type] = {int: "list[int]", float: "list[float]", str: "list[str]"}
    if isinstance(value, list):
        inside = {type(item) for item in value}
        return lists.get(inside.pop(), "list[any]") if len(inside) == 1 else "list[any]"
    return kinds.get(type(value), "any")


def _with_groups(key: str) -> set[str]:
    """A dotted key and the groups it is in."""
    if "." not in key:
        return {key}
    parts = key.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
