"""A translation in the making: every parameter that was set starts as mapped and may get another fate."""

from __future__ import annotations

from attrs import define, field

from primus_backend_megatron.host.asked import Asked
from primus_core.experiment import Value
from primus_core.parameters import Schema
from primus_core.plan import Adjusted, Mapped, Target, Unused


@define(kw_only=True)
class Draft:
    """Values by Megatron's names, and the rows that explain them."""

    asked: Asked
    schema: Schema
    target: Target
    workspace: str
    folder: str
    """The experiment's folder."""
    exp_name: str
    auto_continue: bool = False
    """The run goes on from its own newest checkpoint, where it has one."""
    aligned: bool = True
    """Portable parameters mean what they mean in every back end; else the library's own habits are kept."""
    native: dict[str, Value] = field(init=False)
    adjusted: dict[str, Adjusted] = field(factory=dict)
    unused: dict[str, Unused] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.native = dict(self.asked.values)

    def is_set(self, name: str) -> bool:
        """Whether the user or a preset set the parameter, also to null."""
        return name in self.asked.values

    def __getitem__(self, name: str) -> Value:
        """The value that Megatron will have: set by the user, a preset or a step before, else its default."""
        return self.native[name] if name in self.native else self.schema.parameters[name].default

    def integer(self, name: str) -> int:
        """A value that the schema and the checks before guarantee to be a whole number."""
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}")
        return value

    def adjust(self, name: str, used: Value, why: str) -> None:
        """Give Megatron another value than was asked for, or one that nobody asked for; no row where they agree."""
        if self[name] == used and type(self[name]) is type(used):
            return
        self.native[name] = used
        self.adjusted[name] = Adjusted(
            path=self.asked.paths.get(name, name),
            native=name,
            asked=self.asked.values.get(name),
            used=used,
            why=why,
        )

    def adjust_unset(self, name: str, used: Value, why: str) -> None:
        """Give Megatron another default than its own."""
        if not self.is_set(name):
            self.adjust(name, used, why)

    def drop(self, name: str, why: str) -> None:
        """Leave a parameter that was set out, because it would change nothing."""
        del self.native[name]
        self.unused[name] = Unused(path=self.asked.paths[name], why=why)

    def mapping(self) -> tuple[Mapped, ...]:
        """Rows of the parameters that reach Megatron as they were asked, in the order of the experiment."""
        return tuple(
            Mapped(path=path, native=name, value=self.native[name])
            for name, path in self.asked.paths.items()
            if name not in self.adjusted and name not in self.unused
        )
