"""A translation in the making: every parameter that was set starts as mapped and may get another fate."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from primus_backend_torchtitan.host.asked import Asked
from primus_core.experiment import Value
from primus_core.parameters import Schema
from primus_core.plan import Adjusted, Mapped, Target, Unused


@define(kw_only=True)
class Draft:
    """Values by TorchTitan's paths, and the rows that explain them."""

    asked: Asked
    schema: Schema
    target: Target
    folder: str
    """The experiment's folder."""
    auto_continue: bool = False
    """The run goes on from its own newest checkpoint, where it has one."""
    aligned: bool = True
    """Portable parameters mean what they mean in every back end; else the library's own habits are kept."""
    native: dict[str, Value] = field(init=False)
    adjusted: dict[str, Adjusted] = field(init=False)
    unused: dict[str, Unused] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.native = {native: wish.value for native, wish in self.asked.wishes.items()}
        self.adjusted = {
            native: Adjusted(path=wish.path, native=native, asked=wish.asked, used=wish.value, why=wish.why)
            for native, wish in self.asked.wishes.items()
            if wish.why
        }

    def is_set(self, native: str) -> bool:
        """Whether the user or a preset set the parameter, by whatever name."""
        return native in self.asked.wishes

    def __getitem__(self, native: str) -> Value:
        """The value that TorchTitan will have: set by the user, a preset or a step before, else its default."""
        return self.native[native] if native in self.native else self.schema.parameters[native].default

    def integer(self, native: str, default: int | None = None) -> int:
        """A value that the checks before guarantee to be a whole number, or the default where it is null."""
        value = self[native]
        value = default if value is None else value
        if not isinstance(value, int):
            raise TypeError(f"{native} is {value!r}")
        return value

    def adjust(self, native: str, used: Value, why: str) -> None:
        """Give TorchTitan another value than was asked for, or one that nobody asked for; no row where they agree."""
        if self[native] == used and type(self[native]) is type(used):
            return
        wish = self.asked.wishes.get(native)
        self.native[native] = used
        self.adjusted[native] = Adjusted(
            path=wish.path if wish else native, native=native, asked=wish.asked if wish else None, used=used, why=why
        )

    def adjust_unset(self, native: str, used: Value, why: str) -> None:
        """Give TorchTitan another default than its own."""
        if not self.is_set(native):
            self.adjust(native, used, why)

    def drop(self, native: str, why: str) -> None:
        """Leave out a parameter that was set, because it would change nothing."""
        self.native.pop(native, None)
        self.adjusted.pop(native, None)
        self.unused[native] = Unused(path=self.asked.wishes[native].path, why=why)

    def mapping(self) -> Iterator[Mapped]:
        """Rows of the parameters that reach TorchTitan as they were asked, in the order of the experiment."""
        for native, wish in self.asked.wishes.items():
            if native not in self.adjusted and native not in self.unused:
                yield Mapped(path=wish.path, native=native, value=self.native[native])
