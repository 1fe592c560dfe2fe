"""What the user asked for: the resolved experiment, every value with the place it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from attrs import field

from primus_core.records import frozen

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
"""A YAML or JSON value. Lists and maps are never mutated after resolution."""

Layer: TypeAlias = Literal["default", "extends", "preset", "model", "file", "overrides", "command line"]
"""Where a value was set, weakest first: a later layer overrides an earlier one."""


@frozen(kw_only=True)
class Origin:
    """The place a value was written."""

    file: str
    """Path as the user would name it, or ``"command line"``."""
    line: int = 0
    """1-based; 0 where a line has no meaning."""
    column: int = 0
    """1-based; 0 where a column has no meaning."""
    layer: Layer = "file"

    @property
    def strength(self) -> int:
        """Place of the layer in their order: what has the larger number overrides what has the smaller."""
        return get_args(Layer).index(self.layer)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@frozen(kw_only=True)
class Leaf:
    """One value with its origin, and what it overrode, newest first."""

    value: Value
    origin: Origin
    overrode: tuple[Leaf, ...] = ()
    text: Value = None
    """Scalars as they were written where YAML read another type (``0123``, ``1e5``, ``true``), for parameters that
    take text. Has the shape of ``value``; None stands for a value that is its own text."""
    variables: tuple[str, ...] = ()
    """Environment variables that the value refers to, in the order of the text; also of those that were not set."""


Sections: TypeAlias = "Mapping[str, Mapping[str, Leaf]]"
"""Options of launchers: by the name of the section, then by the option's."""


@frozen(kw_only=True)
class Module:
    """One entry of ``modules:``: a back end, a model and their parameters.

    ``params`` maps dotted parameter paths (``lr``, ``training.local_batch_size``) to leaves, after
    presets, ``overrides`` and the command line, in the spelling the user or the preset chose.
    """

    name: str
    framework: str
    framework_origin: Origin
    config: str
    model: str
    params: Mapping[str, Leaf] = field(factory=dict)
    unset: Mapping[str, Origin] = field(factory=dict)
    """Parameters of presets that the user took away, by dotted path, with the place that did so."""

    def origin(self, key: str) -> str:
        """``file:line`` of a parameter, or ``"default"`` when nobody set it."""
        leaf = self.params.get(key)
        return str(leaf.origin) if leaf else "default"


@frozen(kw_only=True)
class Experiment:
    """A whole experiment file after ``extends``, presets, substitution and overrides."""

    file: str
    work_group: str
    user_name: str
    exp_name: str
    workspace: str
    """Absolute path; the only folder a run writes to."""
    modules: Mapping[str, Module]
    env: Mapping[str, Leaf] = field(factory=dict)
    """Environment variables of every rank, from the top-level ``env:``."""
    launchers: Mapping[str, Mapping[str, Leaf]] = field(factory=dict)
    """Options of launchers by section (``direct``, ``container``, ``slurm``)."""
    platform: Mapping[str, Leaf] = field(factory=dict)
    words: Mapping[str, Leaf] = field(factory=dict)
    """The texts that are no parameters, by their path in the file: ``exp_name``, ``modules.pre_trainer.model``."""

    @property
    def folder(self) -> str:
        """``{workspace}/{work_group}/{user_name}/{exp_name}``."""
        return f"{self.workspace}/{self.work_group}/{self.user_name}/{self.exp_name}"
