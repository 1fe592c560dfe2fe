"""What a parameter is, and the files that describe all parameters of a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, cast, get_args

from attrs import field

from primus_core.experiment import Value
from primus_core.parameters.rows import Row, Rows
from primus_core.records import frozen

Type = Literal["bool", "int", "float", "str", "list[int]", "list[float]", "list[str]", "list[any]", "map", "any"]


_TYPES = frozenset(get_args(Type))


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

    @cached_property
    def defaults(self) -> Mapping[str, Value]:
        """The library's own value of each parameter."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    def __str__(self) -> str:
        return f"{self.library} {self.version}".strip()


def load_schema(
    text: str,
    changes: Mapping[str, Mapping[str, Value]] | None = None,
    added: Mapping[str, Mapping[str, Value]] | None = None,
) -> Schema:
    """Read a schema file: ``{"library", "version", "parameters": {name: {"type", "default", ...}}}``.

    A parameter whose default is null may be null unless ``"nullable": false`` says otherwise.

    Args:
        changes: by name of a parameter, what is to be said of it instead: ``{"tokenizer_type": {"choices": []}}``.
        added: parameters that the file does not have, in its format.

    Raises:
        ValueError: the file is not a schema. Schema files ship with a package, so this is a packaging fault.
    """
    content = json.loads(text)
    rows = content["parameters"]
    rows.update({name: {**rows[name], **change} for name, change in (changes or {}).items()})
    rows.update(added or {})
    if not _TYPES.issuperset(row.get("type") for row in rows.values()):
        name, kind = next((name, row.get("type")) for name, row in rows.items() if row.get("type") not in _TYPES)
        raise ValueError(f"parameter {name}: unknown type {kind!r}")
    return Schema(library=content["library"], version=content["version"], parameters=Rows(rows, _parameter))


def render_schema(content: Mapping[str, Any]) -> str:
    """The text of a schema file: one line for each parameter, so that two versions can be compared with diff.

    Args:
        content: what `load_schema` reads.
    """
    rows = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(row, ensure_ascii=False, allow_nan=False)}"
        for name, row in sorted(content["parameters"].items())
    )
    head = "".join(f"  {json.dumps(key)}: {json.dumps(content[key])},\n" for key in ("library", "version"))
    return f'{{\n{head}  "parameters": {{\n{rows}\n  }}\n}}\n'


def _parameter(name: str, row: Row) -> Parameter:
    default = row.get("default")
    return Parameter(
        name=name,
        type=cast(Type, row["type"]),
        default=default,
        choices=tuple(cast("list[Value]", row.get("choices") or [])),
        nullable=bool(row.get("nullable", default is None)),
        help=str(row.get("help", "")),
    )
