"""What a parameter is, and the files that describe all parameters of a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, cast, get_args

from attrs import field, frozen

from primus_core.experiment import Value

Type = Literal["bool", "int", "float", "str", "list[int]", "list[float]", "list[str]", "list[any]", "map", "any"]


@frozen(kw_only=True)
class Parameter:
    """One parameter of a library, as its schema file describes it."""

    name: str
    type: Type
    default: Value = None
    choices: tuple[Value, ...] = ()
    """The values allowed (of each element, for a list); empty: every value of the type."""
    nullable: bool = False
    help: str = ""


@frozen(kw_only=True)
class Schema:
    """All parameters of one version of a library."""

    library: str
    version: str
    parameters: Mapping[str, Parameter] = field(factory=dict)

    @property
    def defaults(self) -> dict[str, Value]:
        """The library's own value of each parameter."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    def __str__(self) -> str:
        return f"{self.library} {self.version}".strip()


def load_schema(text: str) -> Schema:
    """Read a schema file: ``{"library", "version", "parameters": {name: {"type", "default", ...}}}``.

    A parameter whose default is null may be null unless ``"nullable": false`` says otherwise.

    Raises:
        ValueError: the file is not a schema. Schema files ship with a package, so this is a packaging fault.
    """
    content = json.loads(text)
    return Schema(
        library=content["library"],
        version=content["version"],
        parameters={name: _parameter(name, row) for name, row in content["parameters"].items()},
    )


def _parameter(name: str, row: Mapping[str, Value]) -> Parameter:
    if row.get("type") not in get_args(Type):
        raise ValueError(f"parameter {name}: unknown type {row.get('type')!r}")
    default = row.get("default")
    return Parameter(
        name=name,
        type=cast(Type, row["type"]),
        default=default,
        choices=tuple(cast("list[Value]", row.get("choices") or [])),
        nullable=bool(row.get("nullable", default is None)),
        help=str(row.get("help", "")),
    )
