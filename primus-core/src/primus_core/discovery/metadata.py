"""The folders of metadata that installers leave on ``sys.path``, read as `importlib.metadata` reads them.

That module is imported only where packages come from elsewhere, such as an archive: it needs the standard library's
e-mail, which is dearer than everything else that a command reads of the installation.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Protocol

_ENDINGS = (".dist-info", ".egg-info")
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class Described(Protocol):
    """A distribution with files that describe it: of `importlib.metadata`, or `Folder`."""

    def read_text(self, filename: str, /) -> str | None:
        """What a file of its metadata says; None where there is none."""


class Folder:
    """A distribution whose metadata lies in a folder, or is one old ``.egg-info`` file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read_text(self, filename: str, /) -> str | None:
        """What a file of its metadata says; None where there is none."""
        with contextlib.suppress(*_ABSENT), open(os.path.join(self._path, filename), encoding="utf-8") as file:
            return file.read()
        return None


def described() -> Iterator[Described]:
    """All distributions, in the order of ``sys.path``."""
    if not _only_folders():
        from importlib.metadata import distributions  # here: as the module says

        yield from distributions()
        return
    for entry in sys.path:
        yield from (Folder(os.path.join(entry, name)) for names in _listed(entry).values() for name in names)


def described_as(name: str) -> Described | None:
    """The distribution of a name, the first on ``sys.path``; None where there is none."""
    if not _only_folders():
        from importlib.metadata import Distribution, PackageNotFoundError  # here: as the module says

        try:
            return Distribution.from_name(name)
        except PackageNotFoundError:
            return None
    wanted = _normal(name)
    for entry in sys.path:
        for found in _listed(entry).get(wanted, ()):
            return Folder(os.path.join(entry, found))
    return None


def _only_folders() -> bool:
    """Nobody but Python's own finder tells of distributions, and every place where it looks is a plain folder."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    return finders == [PathFinder] and not any(path.endswith(".egg") or os.path.isfile(path) for path in sys.path)


def _listed(entry: str) -> dict[str, list[str]]:
    try:
        return _names(entry, os.stat(entry or ".").st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=64)
def _names(entry: str, written: int) -> dict[str, list[str]]:
    """Names of the folders of metadata by the distribution's normal name.

    Args:
        written: when the folder of packages was changed last, in nanoseconds: then it is read anew.
    """
    found: dict[str, list[str]] = {}
    for name in os.listdir(entry or "."):
        if name.lower().endswith(_ENDINGS):
            distribution = name.rpartition(".")[0].partition("-")[0]
            found.setdefault(_normal(distribution), []).append(name)
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
