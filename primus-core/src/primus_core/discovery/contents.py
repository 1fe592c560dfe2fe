"""What an installed distribution consists of, and what it needs, from its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field

from primus_core.discovery.modules import find_module
from primus_core.discovery.plugins import metadata_field
from primus_core.records import frozen

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_DESCRIBES = ("METADATA", "entry_points.txt")
_LICENCES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")
_COMPILED = (*EXTENSION_SUFFIXES, ".so", ".pyd", ".dylib")


@frozen(kw_only=True)
class Contents:
    """A distribution's files and needs.

    Attributes:
        requires: other distributions, as it declares them: ``exceptiongroup>=1.1; python_version < "3.11"``.
        python: versions of Python that it is for, such as ``>=3.10``; empty: any.
        files: its Python files and data by their place in a folder of packages; nothing compiled.
        metadata: the texts of its ``.dist-info`` by name.
        compiled: it has extension modules.
    """

    name: str
    version: str
    requires: tuple[str, ...] = ()
    python: str = ""
    files: Mapping[str, Path] = field(factory=dict)
    metadata: Mapping[str, str] = field(factory=dict)
    compiled: bool = False


def contents(name: str) -> Contents | None:
    """What is installed under a name; None where nothing is."""
    from importlib.metadata import Distribution, PackageNotFoundError  # here: dear, and for bundles alone

    try:
        distribution = Distribution.from_name(name)
    except PackageNotFoundError:
        return None
    files = dict(_files(distribution))
    return Contents(
        name=metadata_field(distribution, "Name") or name,
        version=metadata_field(distribution, "Version"),
        requires=tuple(distribution.requires or ()),
        python=metadata_field(distribution, "Requires-Python"),
        files={place: path for place, path in files.items() if not place.endswith(_COMPILED)},
        metadata=_metadata(distribution),
        compiled=any(place.endswith(_COMPILED) for place in files),
    )


def _files(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    found = _listed(distribution) if distribution.files and not _is_editable(distribution) else _found(distribution)
    for place, path in found:
        if "__pycache__" not in place.split("/") and not place.endswith((".pyc", ".pth")):
            yield place, path


def _listed(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """By the installer's list. What lies elsewhere, such as commands, and the metadata itself is left out."""
    for path in distribution.files or ():
        if path.parts[0] != ".." and not path.is_absolute() and not path.parts[0].endswith((".dist-info", ".egg-info")):
            yield path.as_posix(), Path(str(path.locate()))


def _found(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """Where the list does not hold the files: what its modules' folders hold, wherever they lie."""
    for top in _tops(distribution):
        spec = find_module(top)
        if spec is not None and spec.origin and not spec.submodule_search_locations:
            yield Path(spec.origin).name, Path(spec.origin)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in _below(folder):
                yield f"{top}/{path.relative_to(folder).as_posix()}", path


def _below(folder: str) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(place, name) for name in sorted(names))


def _tops(distribution: Distribution) -> list[str]:
    """Names of the distribution's own modules and packages that are in no other."""
    declared = (distribution.read_text("top_level.txt") or "").split()
    called = [one.value.partition(":")[0].partition(".")[0].strip() for one in distribution.entry_points]
    guessed = metadata_field(distribution, "Name").replace("-", "_").replace(".", "_")
    return sorted({*declared, *called} or {guessed})


def _is_editable(distribution: Distribution) -> bool:
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return bool(origin.get("dir_info", {}).get("editable"))


def _metadata(distribution: Distribution) -> dict[str, str]:
    texts = {name: distribution.read_text(name) for name in _DESCRIBES}
    texts["METADATA"] = texts["METADATA"] or distribution.read_text("PKG-INFO")
    for path in distribution.files or ():
        if path.parts[0].endswith(".dist-info") and path.name.upper().startswith(_LICENCES):
            texts["/".join(path.parts[1:])] = Path(str(path.locate())).read_text(encoding="utf-8", errors="replace")
    return {name: text for name, text in texts.items() if text}
