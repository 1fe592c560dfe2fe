"""The parameters of Megatron by version, from the schema files that this package ships."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.parameters import Schema, load_schema

LIBRARY = "megatron-core"
"""The distribution whose version a schema file belongs to."""

_FOLDER = Path(__file__).parent.parent / "schema"

_CHANGES: Mapping[str, Mapping[str, Value]] = {
    # Primus tokenizes, with more tokenizers than Megatron: which ones is for its data preparation to say.
    "tokenizer_type": {"choices": []},
    # mxfp4 is a recipe of AMD's Transformer Engine: whether it can be had is for the check of the model to say.
    "fp4_recipe": {"choices": ["nvfp4", "custom", "mxfp4"]},
}

OWN: Mapping[str, Mapping[str, Value]] = {
    "load_hf": {"type": "str", "default": None, "help": "Hugging Face folder to take the weights from"},
}
"""Parameters that this back end has and Megatron has not."""


@cache
def shipped_versions() -> tuple[str, ...]:
    """Versions of the library that have a schema file, oldest first."""
    names = (path.name for path in _FOLDER.glob(f"{LIBRARY}-*.json"))
    return oldest_first(name.removeprefix(f"{LIBRARY}-").removesuffix(".json") for name in names)


def oldest_first(versions: Iterable[str]) -> tuple[str, ...]:
    """Versions in the order of their releases: ``0.20.0rc1`` comes before ``0.20.0`` and after ``0.19.10``."""
    return tuple(sorted(versions, key=Version))


def schema_for(version: str) -> Schema:
    """The schema of a library version; of the newest one shipped for a version that has no file.

    A local label is no other version: ``0.19.2+rocm`` has the parameters of ``0.19.2``.
    """
    shipped, public = shipped_versions(), _public(version)
    return _load(public if public in shipped else shipped[-1])


def check_version(version: str) -> tuple[Finding, ...]:
    """A warning where a library version has no schema of its own."""
    used = schema_for(version).version
    if used == _public(version):
        return ()
    return (
        Finding(
            check="megatron.schema",
            severity="warning",
            summary=f"{LIBRARY} {version} is not known: parameters are checked as those of {used}",
            evidence=f"known versions: {', '.join(shipped_versions())}",
            remedy=f"`pip install --upgrade primus-backend-megatron`, or use {LIBRARY} {used}",
            cause="dependency",
        ),
    )


def _public(version: str) -> str:
    """Without the local label; what is no version stays as it is."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


@cache
def _load(version: str) -> Schema:
    return load_schema((_FOLDER / f"{LIBRARY}-{version}.json").read_text(encoding="utf-8"), _CHANGES, OWN)
