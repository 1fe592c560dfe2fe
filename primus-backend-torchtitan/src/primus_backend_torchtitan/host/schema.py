"""The parameters of TorchTitan by version: the library's own, those that Primus adds, and the portable ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import evolve

from primus_backend_torchtitan.host.portable import ARCHITECTURE
from primus_backend_torchtitan.sections import SECTIONS
from primus_core.parameters import Parameter, Schema, load_schema, portable
from primus_core.planning.schemafiles import SchemaFiles

LIBRARY = "torchtitan"
"""The distribution whose version a schema file belongs to."""

FILES = SchemaFiles(LIBRARY, Path(__file__).parent.parent / "schema", "torchtitan")


def schema_for(version: str) -> Schema:
    """The schema of a library version; of the newest one shipped for a version that has no file."""
    return _schema(FILES.used_for(version))


def kinds_for(version: str) -> Mapping[str, tuple[str, ...]]:
    """The kinds of its section that have a parameter, for those that not all of them have."""
    return _kinds(FILES.used_for(version))


def portable_schema() -> Schema:
    """The portable parameters, typed; null leaves the library's default."""
    return Schema(library="Primus", version="", parameters=portable())


@cache
def _schema(version: str) -> Schema:
    library = load_schema(FILES.text(version))
    added = load_schema(_added()).parameters
    known = portable()
    model = {f"model.{name}": evolve(known[name], name=f"model.{name}") for name in ARCHITECTURE if name in known}
    return evolve(library, parameters={**library.parameters, **added, **model, **_choosers()})


def _choosers() -> Mapping[str, Parameter]:
    """``kind`` of each section that is one of several classes."""
    return {
        f"{path}.kind": Parameter(
            name=f"{path}.kind", type="str", default=section.default, choices=tuple(section.kinds), help="Which class"
        )
        for path, section in SECTIONS.items()
    }


@cache
def _kinds(version: str) -> Mapping[str, tuple[str, ...]]:
    rows: dict[str, dict[str, list[str]]] = {}
    for text in (FILES.text(version), _added()):
        rows |= json.loads(text)["parameters"]
    return {name: tuple(row["kinds"]) for name, row in rows.items() if "kinds" in row}


def _added() -> str:
    """What Primus adds, whatever the version."""
    return (FILES.folder / "primus.json").read_text(encoding="utf-8")
