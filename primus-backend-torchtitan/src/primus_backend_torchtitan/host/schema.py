"""The parameters of TorchTitan by version: the library's own, those that Primus adds, and the portable ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import evolve
from packaging.version import InvalidVersion, Version

from primus_backend_torchtitan.host.portable import ARCHITECTURE
from primus_backend_torchtitan.sections import SECTIONS
from primus_core.outcome import Finding
from primus_core.parameters import Parameter, Schema, load_schema, portable

LIBRARY = "torchtitan"
"""The distribution whose version a schema file belongs to."""

_FOLDER = Path(__file__).parent.parent / "schema"


@cache
def shipped_versions() -> tuple[str, ...]:
    """Versions of the library that have a schema file, oldest first."""
    names = (path.name for path in _FOLDER.glob(f"{LIBRARY}-*.json"))
    return tuple(sorted((name.removeprefix(f"{LIBRARY}-").removesuffix(".json") for name in names), key=Version))


def schema_for(version: str) -> Schema:
    """The schema of a library version; of the newest one shipped for a version that has no file."""
    return _schema(_shipped(version))


def kinds_for(version: str) -> Mapping[str, tuple[str, ...]]:
    """The kinds of its section that have a parameter, for those that not all of them have."""
    return _kinds(_shipped(version))


def check_version(version: str) -> tuple[Finding, ...]:
    """A warning where a library version has no schema of its own."""
    used = _shipped(version)
    if used == _public(version):
        return ()
    return (
        Finding(
            check="torchtitan.schema",
            severity="warning",
            summary=f"{LIBRARY} {version} is not known: parameters are checked as those of {used}",
            evidence=f"known versions: {', '.join(shipped_versions())}",
            remedy=f"`pip install --upgrade primus-backend-torchtitan`, or use {LIBRARY} {used}",
            cause="dependency",
        ),
    )


def portable_schema() -> Schema:
    """The portable parameters, typed; null leaves the library's default."""
    return Schema(library="Primus", version="", parameters=portable())


def _shipped(version: str) -> str:
    shipped, public = shipped_versions(), _public(version)
    return public if public in shipped else shipped[-1]


def _public(version: str) -> str:
    """Without the local label; what is no version stays as it is."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


@cache
def _schema(version: str) -> Schema:
    library = load_schema(_text(f"{LIBRARY}-{version}.json"))
    added = load_schema(_text("primus.json")).parameters
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
    for name in (f"{LIBRARY}-{version}.json", "primus.json"):
        rows |= json.loads(_text(name))["parameters"]
    return {name: tuple(row["kinds"]) for name, row in rows.items() if "kinds" in row}


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
