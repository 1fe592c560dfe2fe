"""The order in which a plan's patches are applied, and what makes one plan of them impossible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from primus_core.errors import DependencyError
from primus_core.plan import Accelerator, PatchSpec


def check_patches(specs: Sequence[PatchSpec], accelerator: Accelerator) -> None:
    """Refuse a patch plan that contradicts itself, before anything is started.

    Raises:
        DependencyError: what `ordered` and `check_targets` raise.
    """
    named = Counter(spec.target for spec in specs)
    rivals = [spec for spec in ordered(specs) if named[spec.target] > 1]
    check_targets([spec for spec in rivals if not not_needed(spec, accelerator)])


def ordered(specs: Sequence[PatchSpec]) -> tuple[PatchSpec, ...]:
    """The patches so that each comes after those that its ``after`` names, else in the plan's order.

    Raises:
        DependencyError: an id is used twice, ``after`` names an unknown id, or the patches wait for one another.
    """
    _check_ids(specs)
    done: dict[str, PatchSpec] = {}
    waiting = list(specs)
    while waiting:
        ready = next((spec for spec in waiting if all(name in done for name in spec.after)), None)
        if ready is None:
            names = ", ".join(spec.id for spec in waiting)
            raise DependencyError(
                "patches wait for one another", why=f"none of these can be first: {names}", remedy=_REMEDY
            )
        waiting.remove(ready)
        done[ready.id] = ready
    return tuple(done.values())


def not_needed(spec: PatchSpec, accelerator: Accelerator) -> str:
    """Why the patch is not for this accelerator or interpreter; empty where it is."""
    if spec.when and accelerator not in spec.when:
        return f"needed on {', '.join(spec.when)}; this is {accelerator}"
    return _not_for_this_python(spec.python) if spec.python else ""


def _not_for_this_python(versions: str) -> str:
    import platform  # here, as the next: few patches ask

    from packaging.specifiers import SpecifierSet

    if platform.python_version() in SpecifierSet(versions, prereleases=True):
        return ""
    return f"needed on Python {versions}; this is {platform.python_version()}"


def check_targets(specs: Sequence[PatchSpec]) -> None:
    """Refuse two patches that name one target.

    Raises:
        DependencyError: naming the target and both patches.
    """
    owners: dict[str, str] = {}
    for spec in specs:
        other = owners.setdefault(spec.target, spec.id)
        if other != spec.id:
            raise two_on_one_target(spec.target, other, spec.id)


def two_on_one_target(target: str, first: str, second: str) -> DependencyError:
    return DependencyError(
        f"patches {first} and {second} replace the same target",
        where=target,
        why="the later one would hide the earlier one",
        remedy=_REMEDY,
    )


def _check_ids(specs: Sequence[PatchSpec]) -> None:
    known = {spec.id for spec in specs}
    if len(known) != len(specs):
        twice = sorted({spec.id for spec in specs if [other.id for other in specs].count(spec.id) > 1})
        raise DependencyError(f"patch id used twice: {', '.join(twice)}", remedy=_REMEDY)
    for spec in specs:
        for name in spec.after:
            if name not in known:
                raise DependencyError(f"patch {spec.id} comes after {name}, which is not planned", remedy=_REMEDY)


_REMEDY = "This is a fault of the back end's patch plan: update the back end, or report it to its authors."
