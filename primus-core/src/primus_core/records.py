"""Frozen attrs classes that cost half of what attrs' own cost when they are made.

A command makes a hundred of them before it does anything. attrs writes, compiles and runs Python text for the methods
of each; here ``==``, ``hash`` and ``repr`` are the same few functions for all, with the same answers. Type checkers
see `attrs.frozen` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrs import frozen as frozen
else:
    import attrs

    def frozen(cls: type | None = None, **options: Any) -> Any:
        """As `attrs.frozen`, without fields that are compared or shown by functions of their own."""
        if cls is None:
            return lambda decorated: frozen(decorated, **options)
        own = vars(cls)
        compared = options.pop("eq", "__eq__" not in own and "__hash__" not in own)
        made = attrs.frozen(cls, eq=False, repr=False, **options)
        if "__repr__" not in own:
            made.__repr__ = _repr(tuple(field.name for field in attrs.fields(made) if field.repr))
        if compared:
            made.__eq__, made.__hash__ = _comparison([field.name for field in attrs.fields(made) if field.eq])
        return made


def _repr(names: tuple[str, ...]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:
        name = type(self).__qualname__.rpartition(">.")[2]
        return f"{name}({', '.join([f'{field}={getattr(self, field)!r}' for field in names])})"

    return __repr__


def _comparison(names: list[str]) -> tuple[Callable[[object, object], bool], Callable[[object], int]]:
    values: Callable[[object], object] = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash((type(self), values(self)))

    return __eq__, __hash__
