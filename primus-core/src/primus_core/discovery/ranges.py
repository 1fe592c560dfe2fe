"""The versions of libraries that a plugin trains with: its extra ``runtime``, as pip reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from primus_core.discovery.metadata import described_as
from primus_core.discovery.plugins import metadata_fields

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)\s*\(?(?P<range>[<>=!~][^;)]*)\)?\s*;.*\bextra\s*==\s*['\"]runtime['\"]"
)


def runtime_ranges(distribution: str) -> Mapping[str, str]:
    """Range of versions by library, such as ``>=0.19,<0.20``; libraries that may have any version are left out."""
    found = described_as(distribution)
    lines = metadata_fields(found, "Requires-Dist") if found else ()
    matches = (match for line in lines if (match := _REQUIREMENT.match(line)))
    return {match["name"]: _upwards(match["range"]) for match in matches}


def _upwards(wanted: str) -> str:
    """``>=0.19,<0.20`` of ``<0.20, >=0.19``, which is how metadata has it."""
    return ",".join(sorted((part.strip() for part in wanted.split(",")), reverse=True))


def is_within(version: str, wanted: str) -> bool:
    """Whether a version is in a range; builds of a release before it is out, as in vendors' images, count as it."""
    from packaging.specifiers import SpecifierSet  # here: dear, and most commands look at no version
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(wanted).contains(Version(version).base_version)
    except InvalidVersion:
        return True
