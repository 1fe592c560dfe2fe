"""Parameters of other products that users' files set: what each means to a back end, from a reviewed table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Literal, cast, get_args

from primus_core.errors import ConfigError
from primus_core.experiment import Layer, Leaf, Value
from primus_core.parameters.checking import owner_of
from primus_core.parameters.rows import Row, Rows
from primus_core.plan import Unused
from primus_core.records import frozen

Fate = Literal["alias", "read", "inactive", "gone", "needs"]
"""What becomes of a foreign parameter:

- ``alias``: another spelling of a parameter of the library.
- ``read``: the back end acts on it itself; the library never sees it. ``harmless`` lists the values that it may have.
- ``inactive``: it has nothing to act on here; leaving it out changes no result of the training.
- ``gone``: the library has nothing like it any more; a value that is not harmless is an error.
- ``needs``: it asks for a model or a training that the back end cannot build; ``why`` says what that is. Such a row may
  also be about a parameter that the library has.
"""

_FATES = frozenset(get_args(Fate))
_OFF = ("", "0", "0.0", "false", "none", "null")
_OWN_FILES: tuple[Layer, ...] = ("file", "extends", "overrides", "command line")
"""Layers that a user can change. Presets are not among them."""


@frozen(kw_only=True)
class ForeignKey:
    """One row of the table."""

    name: str
    fate: Fate
    why: str
    """A sentence for the user: why leaving it out changes nothing, or what is missing."""
    native: str = ""
    """The library's name, of an alias."""
    harmless: tuple[Value, ...] | None = None
    """Values that ask for nothing, beside null; None: whatever is zero, false or empty."""
    part_of: str = ""
    """A parameter without which this one acts on nothing."""
    remedy: str = ""
    """What to do instead."""

    def is_harmless(self, value: Value) -> bool:
        """Whether a value asks for nothing. Text is taken as the scalar that it spells."""
        if value is None:
            return True
        if self.harmless is None:
            return is_off(value)
        return any(_spelling(value) == _spelling(one) for one in self.harmless)


ForeignKeys = Mapping[str, ForeignKey]
"""The rows by name."""


class ForeignTable(Rows[ForeignKey]):
    """A back end's rows by name."""

    def of_fate(self, fate: Fate) -> tuple[str, ...]:
        """The names that have one fate."""
        return tuple(name for name, row in self.raw.items() if row["fate"] == fate)


def load_foreign(text: str) -> ForeignTable:
    """Read a table: ``[{"name", "fate", "why", ...}, ...]``, one row for each name.

    Several names that share a row are written as ``{"names": [...], ...}``.

    Raises:
        ValueError: the file is no such table. It ships with a package, so this is a packaging fault.
    """
    rows: dict[str, Row] = {}
    for row in json.loads(text):
        for name in row.pop("names", None) or [row.pop("name")]:
            if name in rows:
                raise ValueError(f"{name} has two rows")
            if row.get("fate") not in _FATES:
                raise ValueError(f"{name}: unknown fate {row.get('fate')!r}")
            rows[name] = row
    return ForeignTable(rows, _key)


def _key(name: str, row: Row) -> ForeignKey:
    harmless = row.get("harmless")
    return ForeignKey(
        name=name,
        fate=cast(Fate, row["fate"]),
        why=str(row["why"]),
        native=str(row.get("native", "")),
        harmless=tuple(harmless) if isinstance(harmless, list) else None,
        part_of=str(row.get("part_of", "")),
        remedy=str(row.get("remedy", "")),
    )


def foreign_key(path: str, keys: ForeignKeys) -> ForeignKey | None:
    """The row of a dotted path, or of the group that it is an entry of; None where the table knows neither."""
    name = owner_of(path, keys)
    return keys[name] if name else None


def unused(key: ForeignKey, path: str, leaf: Leaf, is_on: Callable[[str], bool]) -> Unused:
    """The row of a parameter that reaches no library, with a warning where the user should hear of it.

    Whoever cannot change a value, since a preset set it, is not warned of it.

    Args:
        path: the spelling in the experiment; an entry of ``key`` where that is a group.
        is_on: whether a parameter has a value that asks for something.

    Raises:
        ConfigError: leaving it out would not give what was asked for.
    """
    if key.part_of and not is_on(key.part_of):
        return Unused(path=path, why=f"it acts on nothing without `{key.part_of}`: {key.why}")
    harmless = key.is_harmless(leaf.value)
    if not harmless and (key.fate == "gone" or (key.fate == "read" and key.harmless is not None)):
        raise ConfigError(
            f"`{path}` cannot be {_yaml(leaf.value)} here", where=str(leaf.origin), why=key.why, remedy=key.remedy
        )
    if key.fate == "needs":
        return Unused(path=path, why=f"it {'would ask' if harmless else 'asks'} for {key.why}")
    loud = key.fate == "inactive" and not harmless and leaf.origin.layer in _OWN_FILES
    return Unused(path=path, why=key.why, severity="warning" if loud else "info")


def asks(key: ForeignKey, leaf: Leaf, is_on: Callable[[str], bool]) -> bool:
    """Whether a parameter of fate ``needs`` asks for what the back end cannot build."""
    return key.fate == "needs" and not key.is_harmless(leaf.value) and (not key.part_of or is_on(key.part_of))


def is_off(value: Value) -> bool:
    """Whether a value is null, zero, false or empty, or text that spells one of these."""
    return not value or (isinstance(value, str) and value.strip().lower() in _OFF)


def _spelling(value: Value) -> str:
    return str(value).strip().lower()


def _yaml(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
