"""The files of a back end that describe its library's parameters, one for each version."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from primus_core.outcome import Finding
from primus_core.records import frozen


@frozen
class SchemaFiles:
    """``LIBRARY-VERSION.json`` in one folder."""

    library: str
    """The distribution whose versions they are named after."""
    folder: Path
    framework: str

    def versions(self) -> tuple[str, ...]:
        """Versions of the library that have a file, oldest first."""
        return _versions(self.folder, self.library)

    def used_for(self, version: str) -> str:
        """The version whose file describes a version of the library: the newest one for a version that has no file.

        A local label is no other version: ``0.19.2+rocm`` has the parameters of ``0.19.2``.
        """
        public = _public(version)
        return public if public in self.versions() else self.versions()[-1]

    def text(self, version: str) -> str:
        """The content of a version's file."""
        return (self.folder / f"{self.library}-{version}.json").read_text(encoding="utf-8")

    def check(self, version: str) -> tuple[Finding, ...]:
        """A warning where a version of the library has no file of its own."""
        used = self.used_for(version)
        if used == _public(version):
            return ()
        return (
            Finding(
                check=f"{self.framework}.schema",
                severity="warning",
                summary=f"{self.library} {version} is not known: parameters are checked as those of {used}",
                evidence=f"known versions: {', '.join(self.versions())}",
                remedy=f"`pip install --upgrade primus-backend-{self.framework}`, or use {self.library} {used}",
                cause="dependency",
            ),
        )


def oldest_first(versions: Iterable[str]) -> tuple[str, ...]:
    """Versions in the order of their releases: ``0.20.0rc1`` comes before ``0.20.0`` and after ``0.19.10``."""
    return tuple(sorted(versions, key=Version))


@cache
def _versions(folder: Path, library: str) -> tuple[str, ...]:
    names = (path.name for path in folder.glob(f"{library}-*.json"))
    return oldest_first(name.removeprefix(f"{library}-").removesuffix(".json") for name in names)


def _public(version: str) -> str:
    """Without the local label; what is no version stays as it is."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version
