"""The parameters of Megatron by version, from the schema files that this package ships."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from attrs import evolve

from primus_core.parameters import Schema, load_schema

LIBRARY = "megatron-core"
"""The distribution whose version a schema file belongs to."""

_FOLDER = Path(__file__).parent.parent / "schema"


@cache
def shipped_versions() -> tuple[str, ...]:
    """Versions of the library that have a schema file, oldest first."""
    names = (path.name for path in _FOLDER.glob(f"{LIBRARY}-*.json"))
    versions = (name.removeprefix(f"{LIBRARY}-").removesuffix(".json") for name in names)
    return tuple(sorted(versions, key=lambda version: [int(part) for part in version.split(".")]))


def schema_for(version: str) -> Schema:
    """The schema of a library version; of the newest one shipped for a version that has no file."""
    shipped = shipped_versions()
    return _load(version if version in shipped else shipped[-1])


@cache
def _load(version: str) -> Schema:
    schema = load_schema((_FOLDER / f"{LIBRARY}-{version}.json").read_text(encoding="utf-8"))
    # Primus tokenizes, with more tokenizers than Megatron: which ones is for its data preparation to say.
    tokenizer = evolve(schema.parameters["tokenizer_type"], choices=())
    return evolve(schema, parameters={**schema.parameters, tokenizer.name: tokenizer})
