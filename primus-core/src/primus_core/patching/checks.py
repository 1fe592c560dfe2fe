"""Is the code that a patch is about to replace the code that it was written for?"""

from __future__ import annotations

from packaging.requirements import InvalidRequirement, Requirement

from primus_core.discovery.versions import installed_version
from primus_core.errors import DependencyError, PrimusError, RunError
from primus_core.patching.fingerprints import fingerprint, library_version
from primus_core.patching.targets import Location
from primus_core.plan import PatchSpec


def check_version(spec: PatchSpec, location: Location) -> PrimusError | None:
    """The error when the patched distribution is absent or outside ``requires``.

    Raises:
        RunError: ``requires`` is no requirement.
    """
    if not spec.requires:
        return None
    requirement = _requirement(spec)
    version = installed_version(requirement.name)
    if version is not None and requirement.specifier.contains(version, prereleases=True):
        return None
    return DependencyError(
        f"{requirement.name} {version or 'is not installed'}, but the patch is for {spec.requires}",
        remedy=f"Install {spec.requires}, update the back end, or accept the risk: {_allow(spec)}",
    )


def check_fingerprint(spec: PatchSpec, location: Location) -> PrimusError | None:
    """The error when the target differs from every known state, or exists although it should be created."""
    if not spec.fingerprint:
        return _should_be_absent(spec, location)
    if not location.exists:
        raise RunError("the target does not exist", why=_versions(spec, location))
    found = fingerprint(location.original, library_version(location, spec.requires))
    if found in spec.fingerprint:
        return None
    return RunError(
        "the target's source is not what the patch was written for",
        why=f"{_versions(spec, location)}; fingerprint {found[:16]}, known: {_short(spec.fingerprint)}",
        remedy=f"Install a version that the back end supports, update the back end, or accept the risk: {_allow(spec)}",
    )


def _should_be_absent(spec: PatchSpec, location: Location) -> PrimusError | None:
    if not location.exists:
        return None
    return RunError(
        "the target exists already, but the patch would create it",
        why=_versions(spec, location),
        remedy=f"Update the back end, or accept the risk: {_allow(spec)}",
    )


def _requirement(spec: PatchSpec) -> Requirement:
    try:
        return Requirement(spec.requires)
    except InvalidRequirement as error:
        raise RunError(f"requires {spec.requires!r} is no version range", why=str(error)) from error


def _versions(spec: PatchSpec, location: Location) -> str:
    version = library_version(location, spec.requires) or "of unknown version"
    return f"installed {location.library} {version}, patch made for {spec.requires or 'any version'}"


def _short(hashes: tuple[str, ...]) -> str:
    return ", ".join(text[:16] for text in hashes)


def _allow(spec: PatchSpec) -> str:
    return f"--allow-patch-drift {spec.id}"
