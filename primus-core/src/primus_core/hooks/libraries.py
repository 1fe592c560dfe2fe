"""Versions of the libraries that a back end trains with, against the ranges that it supports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from primus_core.discovery import installed_version, is_within, runtime_ranges
from primus_core.outcome import Finding


def unsupported(distribution: str, known: Mapping[str, str], *, here: bool) -> Iterator[Finding]:
    """A warning for each library whose version is outside of its range.

    Args:
        distribution: of the back end, whose extra ``runtime`` has the ranges.
        known: versions by library, whatever is installed.
        here: the ranks have the libraries that are installed here; else none but the known ones are judged.
    """
    for library, wanted in runtime_ranges(distribution).items():
        version = known.get(library) or (installed_version(library) if here else None)
        if version and not is_within(version, wanted):
            yield Finding(
                check="versions",
                severity="warning",
                summary=f"{library} {version} is outside of the supported range {wanted}",
                evidence=f"{distribution} trains with versions in that range; others may fail, or train otherwise",
                remedy=f'`pip install "{library}{wanted}"`, or another version of {distribution}',
                cause="dependency",
            )
