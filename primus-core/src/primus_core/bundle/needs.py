"""Which distributions travel with a run: those that its plan uses, and what these need on any Python of an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve, field, frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from primus_core.discovery import Contents, contents
from primus_core.errors import DependencyError

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""Versions of Python that an image may have, whatever this host's is."""

WITHOUT_EXTENSION = frozenset({"pyyaml"})
"""Compiled distributions whose Python files alone do the same, slower."""


@frozen(kw_only=True)
class Need:
    """What a distribution needs of another one."""

    name: str
    """Normalized: ``typing-extensions``."""
    versions: str
    """Range of versions, such as ``>=25.4``; empty: any."""
    pythons: tuple[str, ...]
    """The versions of Python on which it does."""


@frozen(kw_only=True)
class Carried:
    """One distribution that travels."""

    contents: Contents
    planned: bool = False
    """The plan was made by this very version, and it runs whatever the image has."""
    needs: tuple[Need, ...] = ()


@frozen(kw_only=True)
class Load:
    """All that travels, by normalized name, and what should and cannot."""

    carried: Mapping[str, Carried] = field(factory=dict)
    absent: tuple[Need, ...] = ()
    """Needed, and not installed here: the image has it, or the run fails."""


def collect(names: Iterable[str]) -> Load:
    """The named distributions with all that they need, on any of `PYTHONS`.

    What is compiled stays behind with its own needs, since it fits no other image.

    Raises:
        DependencyError: a named one is not installed, or its code cannot be found.
    """
    carried = {_normalized(name): _planned(name) for name in names}
    absent: list[Need] = []
    todo = list(carried)
    while todo:
        name = todo.pop()
        needs = tuple(needs_of(carried[name].contents))
        carried[name] = evolve(carried[name], needs=needs)
        for need in needs:
            if need.name in carried:
                continue
            found = contents(need.name)
            if found is None:
                absent.append(need)
            elif found.files and (not found.compiled or need.name in WITHOUT_EXTENSION):
                carried[need.name] = Carried(contents=found)
                todo.append(need.name)
    return Load(carried=dict(sorted(carried.items())), absent=tuple(absent))


def needs_of(one: Contents) -> Iterator[Need]:
    """What it needs without extras, on Linux, each with the versions of Python that need it."""
    for text in one.requires:
        requirement = Requirement(text)
        pythons = tuple(python for python in PYTHONS if _applies(requirement, python))
        if pythons:
            yield Need(name=_normalized(requirement.name), versions=str(requirement.specifier), pythons=pythons)


def _normalized(name: str) -> str:
    return canonicalize_name(name)


def _applies(requirement: Requirement, python: str) -> bool:
    here = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    return requirement.marker is None or requirement.marker.evaluate(here)


def _planned(name: str) -> Carried:
    found = contents(name)
    if found is None or not found.files:
        raise DependencyError(
            f"the code of {name} cannot be given to a container",
            why="it is not installed" if found is None else "its files are not found from its metadata",
            remedy=f"`pip install --force-reinstall {name}`, or use the image's own with --no-mount-code",
        )
    return Carried(contents=found, planned=True)
