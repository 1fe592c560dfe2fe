"""The parameters that every back end understands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from primus_core.parameters.rows import Row, Rows
from primus_core.parameters.schema import Parameter, Type


@cache
def portable() -> Mapping[str, Parameter]:
    """The portable parameters by name, in the order of their table; null leaves the library's default."""
    rows = json.loads((Path(__file__).parent.parent / "portable.json").read_text(encoding="utf-8"))
    return Rows({row["name"]: row for row in rows}, _parameter)


def _parameter(name: str, row: Row) -> Parameter:
    unit = f" Unit: {row['unit']}." if row["unit"] else ""
    return Parameter(name=name, type=cast(Type, row["type"]), nullable=True, help=f"{row['meaning']}{unit}")
