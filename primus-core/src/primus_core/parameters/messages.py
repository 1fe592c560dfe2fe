"""What is said about a value or a name that does not fit."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters.schema import Parameter, Schema

_WANTED: dict[str, str] = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list[int]": "a list of whole numbers",
    "list[float]": "a list of numbers",
    "list[str]": "a list of texts",
    "list[any]": "a list",
    "map": "a map",
    "any": "any value",
}


EXPERIMENT_KEYS = ("work_group", "user_name", "exp_name", "workspace", "framework", "config", "model")
"""What a word of the command line may set beside parameters."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate a user most likely meant by a misspelled name; None when none is close."""
    from difflib import get_close_matches  # here: for mistakes alone

    by_key = {_fold(candidate): candidate for candidate in candidates}
    found = get_close_matches(_fold(name), by_key, n=1, cutoff=0.7)
    return by_key[found[0]] if found else None


def members(group: str, names: Iterable[str]) -> list[str]:
    """The dotted names that are entries of a group."""
    return [name for name in names if name.startswith(group + ".")]


def wrong_type(parameter: Parameter, leaf: Leaf) -> ConfigError:
    wanted = _WANTED[parameter.type] + (" or null" if parameter.nullable else "")
    if parameter.choices:
        remedy = "write one of: " + ", ".join(map(_shown, parameter.choices))
    elif parameter.type == "str" and isinstance(leaf.value, (list, dict)):
        words = [str(item) for item in leaf.value if isinstance(item, str | int | float)]
        remedy = f"write one text, such as {_shown(','.join(words))}"
    else:
        example = "" if parameter.default is None else f", such as its default {_shown(parameter.default)}"
        remedy = f"write {wanted}{example}"
    return ConfigError(
        f"`{parameter.name}` takes {wanted}, not {_shown(leaf.value)}",
        where=str(leaf.origin),
        why=_whence(leaf),
        remedy=remedy,
    )


def empty_variable(parameter: Parameter, leaf: Leaf) -> ConfigError:
    names = _references(leaf)
    return ConfigError(
        f"`{parameter.name}` takes {_WANTED[parameter.type]}, and {names} is set, but empty",
        where=str(leaf.origin),
        why="a default counts only where the variable is not set at all",
        remedy=f"unset {leaf.variables[-1]}, or give it a value",
    )


def python_null(parameter: Parameter, leaf: Leaf) -> ConfigError:
    return ConfigError(
        f"`{parameter.name}` is None, which is text in YAML",
        where=str(leaf.origin),
        why=_whence(leaf),
        remedy=f"write null{'' if parameter.nullable else ', for the default'}",
    )


def not_finite(parameter: Parameter, leaf: Leaf, value: float) -> ConfigError:
    return ConfigError(
        f"`{parameter.name}` cannot be {_shown(value)}",
        where=str(leaf.origin),
        why="nothing can be computed with a value that is infinite or no number",
        remedy=f"write a finite number{', or null' if parameter.nullable else ''}",
    )


def no_choice(parameter: Parameter, leaf: Leaf, value: Value) -> ConfigError:
    meant = nearest(str(value), [str(choice) for choice in parameter.choices])
    hint = f"did you mean {meant}? " if meant else ""
    return ConfigError(
        f"`{parameter.name}` cannot be {_shown(value)}",
        where=str(leaf.origin),
        why=_whence(leaf),
        remedy=f"{hint}write one of: {', '.join(map(_shown, parameter.choices))}",
    )


def unknown(key: str, leaf: Leaf, schema: Schema, also: Collection[str], *, guess: bool = True) -> ConfigError:
    """A name that nobody knows.

    Args:
        guess: name the nearest one that is known.
    """
    names = [*schema.parameters, *also] if guess else []
    inside = members(key, names)
    others = EXPERIMENT_KEYS if leaf.origin.layer == "command line" else ()
    meant = nearest(key.removeprefix("overrides."), [*names, *others])
    if inside:
        remedy = f"`{key}` is a group: set one of its parameters, such as `{inside[0]}`"
    elif meant:
        remedy = f"did you mean `{meant}`?"
    else:
        remedy = "remove it, or look up the parameter's name"
    return ConfigError(
        f"unknown parameter `{key}`",
        where=str(leaf.origin),
        why=f"{schema} has no parameter of this name",
        remedy=remedy,
    )


def _whence(leaf: Leaf) -> str:
    return f"the value is from {_references(leaf)}" if leaf.variables else ""


def _references(leaf: Leaf) -> str:
    return " and ".join(f"${{{name}}}" for name in leaf.variables)


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def _shown(value: Value) -> str:
    """The value as a user would write it in YAML, cut to one line."""
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else f"{'-' * (value < 0)}.inf"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
