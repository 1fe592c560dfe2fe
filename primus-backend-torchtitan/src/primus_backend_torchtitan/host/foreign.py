"""Names of TorchTitan 0.2 and of other products, from the table in ``foreign.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import define, field

from primus_backend_torchtitan.sections import FORMER_CONVERTERS
from primus_core.errors import ConfigError
from primus_core.experiment import Layer, Leaf, Module, Value
from primus_core.outcome import Finding
from primus_core.parameters import ForeignKey, ForeignTable, load_foreign
from primus_core.parameters.foreign import asks, foreign_key, is_off, unused
from primus_core.plan import Adjusted, Mapped, RunPlan, Unused
from primus_core.planning.places import at_their_places, parameters_have

_TABLE = Path(__file__).parent.parent / "foreign.json"
_OWN_FILES: tuple[Layer, ...] = ("file", "extends", "overrides", "command line")


@cache
def foreign_keys() -> ForeignTable:
    """The reviewed table, by name."""
    return load_foreign(_TABLE.read_text(encoding="utf-8"))


@define
class Sorted:
    """The parameters by what their names are."""

    others: dict[str, Leaf] = field(factory=dict)
    """Those that this table does not know."""
    aliases: dict[str, tuple[ForeignKey, Leaf]] = field(factory=dict)
    """Other spellings of TorchTitan's parameters, by that spelling."""
    read: dict[str, Value] = field(factory=dict)
    """Options of converters, which the translation puts into their entries."""
    unused: list[Unused] = field(factory=list)
    errors: list[ConfigError] = field(factory=list)


def sort_names(params: Mapping[str, Leaf], known: Collection[str]) -> Sorted:
    """Sort parameters by the table; what they are not allowed to be is among the errors.

    Args:
        known: those that TorchTitan or core has itself.
    """
    found, is_on = Sorted(), switches(params)
    for path, leaf in params.items():
        key = None if path in known else foreign_key(path, foreign_keys())
        if key is None:
            _add_other(found, path, leaf)
        elif key.fate == "alias" and not (key.part_of and not is_on(key.part_of)):
            found.aliases[path] = (key, leaf)
        else:
            _leave_out(found, key, path, leaf, is_on)
    return found


def _add_other(found: Sorted, path: str, leaf: Leaf) -> None:
    if leaf.value is None and any(name.startswith(f"{path}.") for name in foreign_keys()):
        found.unused.append(Unused(path=path, why="null: nothing of it is set"))
    else:
        found.others[path] = leaf


def _leave_out(found: Sorted, key: ForeignKey, path: str, leaf: Leaf, is_on: Callable[[str], bool]) -> None:
    try:
        row = unused(key, path, leaf, is_on)
    except ConfigError as error:
        found.errors.append(error)
        return
    if key.fate == "read" and key.part_of and is_on(key.part_of) and leaf.value is not None:
        found.read[path] = leaf.value
    else:
        found.unused.append(row)


def switches(params: Mapping[str, Leaf]) -> Callable[[str], bool]:
    """Whether a parameter asks for something, under its former name or its present one.

    ``name=value`` asks whether it has that value, or an entry of it.
    """

    def is_on(condition: str) -> bool:
        name, _, wanted = condition.partition("=")
        key = foreign_keys().get(name)
        leaf = params.get(name) or params.get(key.native if key else "")
        value = leaf.value if leaf else None
        if not wanted:
            return not is_off(value)
        return _has(value, wanted) if isinstance(value, list) else value == wanted

    return is_on


def _has(converters: Sequence[Value], name: str) -> bool:
    """Whether a list of converters has one, by its former name or its kind."""
    kinds = [entry.get("kind") for entry in converters if isinstance(entry, Mapping)]
    return name in converters or FORMER_CONVERTERS.get(name) in kinds


def check_buildable(plan: RunPlan) -> tuple[Finding, ...]:
    """An error that names everything which asks for a model or a training that this back end cannot build."""
    if plan.experiment is None or plan.module is None:
        return ()
    module = plan.experiment.modules[plan.module]
    wishes = list(_wishes(module.params))
    if not wishes:
        return ()
    remedies = dict.fromkeys(key.remedy or "remove it" for _, key, _ in wishes)
    return (
        Finding(
            check="torchtitan.model",
            severity="error",
            summary=f"{module.model} with these parameters cannot be built by the TorchTitan back end",
            evidence="\n".join(_asks(path, key, leaf) for path, key, leaf in wishes),
            remedy="; ".join(remedies),
            cause="unsupported",
            where=str(wishes[0][2].origin),
        ),
    )


def _wishes(params: Mapping[str, Leaf]) -> Iterator[tuple[str, ForeignKey, Leaf]]:
    is_on = switches(params)
    for path in sorted(params):
        key = foreign_key(path, foreign_keys())
        if key and asks(key, params[path], is_on):
            yield path, key, params[path]


def _asks(path: str, key: ForeignKey, leaf: Leaf) -> str:
    return f"`{path}: {json.dumps(leaf.value, ensure_ascii=False)}` asks for {key.why} ({leaf.origin})"


def check_names(plan: RunPlan) -> tuple[Finding, ...]:
    """A warning that names the present spelling of every former one; they act as before."""
    if plan.experiment is None or plan.module is None or plan.translation is None:
        return ()
    module = plan.experiment.modules[plan.module]
    rows: tuple[Mapped | Adjusted, ...] = (*plan.translation.mapping, *plan.translation.adjusted)
    acting = {row.path for row in rows}
    moved = [(path, key) for path, key in _moved(module) if path in acting]
    if not moved:
        return ()
    told = [(f"{path} is {key.native}", module.origin(path)) for path, key in moved]
    return (
        Finding(
            check="torchtitan.names",
            severity="warning",
            summary=f"{parameters_have(len(moved))} another name in TorchTitan 0.3; the former one still works here",
            evidence="\n".join(at_their_places(told)),
            remedy="write the present names, or the portable ones, which every back end understands",
            where=told[0][1],
        ),
    )


def _moved(module: Module) -> Iterator[tuple[str, ForeignKey]]:
    """What the user can change: presets' names are theirs."""
    for path, leaf in module.params.items():
        key = foreign_keys().get(path)
        if key and key.fate == "alias" and leaf.origin.layer in _OWN_FILES:
            yield path, key
