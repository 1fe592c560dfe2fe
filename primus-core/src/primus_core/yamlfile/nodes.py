"""What a YAML file is read into: scalars, lists and maps that know where they were written, and keys taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field

from primus_core.experiment import Origin, Value
from primus_core.records import frozen


@frozen(kw_only=True)
class Scalar:
    """A null, bool, number or text."""

    value: bool | int | float | str | None
    origin: Origin
    """Where its key starts, for an entry of a map; else where it starts itself."""
    text: str | None = None
    """What was written, where that is not the value itself: ``0123`` for 123."""
    variables: tuple[str, ...] = ()
    """Environment variables that it refers to."""


@frozen(kw_only=True)
class Unset:
    """``key: !unset``: what files below say of the key does not count. Stands in maps only."""

    origin: Origin
    value: None = None
    text: None = None
    variables: tuple[str, ...] = ()


@frozen(kw_only=True)
class Items:
    """A list."""

    nodes: tuple[Node, ...]
    origin: Origin
    written: str = ""
    """The text in brackets that it was on the command line or in an environment variable, for places that take text."""

    @property
    def value(self) -> list[Value]:
        return [node.value for node in self.nodes]

    @property
    def text(self) -> Value:
        """The texts of the elements; None when no element has one."""
        texts: list[Value] = [node.text for node in self.nodes]
        return texts if any(text is not None for text in texts) else None

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.variables))


@frozen(kw_only=True)
class Fields:
    """A map; its keys are text, in the order of the file."""

    entries: Mapping[str, Node] = field(factory=dict)
    origin: Origin
    written: str = ""
    """As for `Items`."""
    refers: bool = True
    """False: no value in it refers to a variable."""

    @property
    def value(self) -> dict[str, Value]:
        return {key: node.value for key, node in self.entries.items()}

    @property
    def text(self) -> Value:
        """The texts of the entries that have one; None when no entry has."""
        texts: dict[str, Value] = {key: node.text for key, node in self.entries.items() if node.text is not None}
        return texts or None

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for node in self.entries.values() for name in node.variables))


Node: TypeAlias = "Scalar | Items | Fields | Unset"
