"""Runs a module of the copy of Primus that this file lies in: ``python start.py MODULE ARGUMENTS...``.

The image's own packages keep their place: what is copied here comes after them on ``sys.path``, and what the image has
already is not used from here. Only what the plan was made by, and a need that the image has in a version that is of no
use, come before. The standard library alone, since it runs where nothing else may be.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LIST = "bundle.json"
TOLD = "PRIMUS_CODE_TOLD"
"""Set by the process that has told what of the image is not used, for those that it starts."""

_INSTALLED = re.compile(r"(.+?)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_RANGE = re.compile(r"(~=|={2,3}|!=|<=|>=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


class CannotRun(Exception):
    """This Python cannot run the copy. Its arguments: what, why, and what to do."""


def main() -> None:
    """Become the module that the first argument names."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(here):
        del sys.path[0]
    with open(os.path.join(here, LIST), encoding="utf-8") as file:
        listing = json.load(file)
    image = installed(sys.path)
    try:
        before, after = places(listing, image, sys.version_info[:3])
    except CannotRun as error:
        sys.stderr.write("error: {}\n  why: {}\n  try: {}\n".format(*error.args))
        sys.exit(1)
    if TOLD not in os.environ:
        sys.stderr.writelines(told(before, image, listing["distributions"]))
        os.environ[TOLD] = "1"
    sys.path[:0] = [os.path.join(here, name) for name in before]
    sys.path += [os.path.join(here, name) for name in after]
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def installed(path: Sequence[str]) -> dict[str, str]:
    """Versions of the distributions on a search path by normalized name; the first of a name counts."""
    found: dict[str, str] = {}
    for folder in path:
        if not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            match = _INSTALLED.fullmatch(name)
            if match:
                found.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return found


def places(
    listing: Mapping[str, Any], image: Mapping[str, str], python: tuple[int, ...]
) -> tuple[list[str], list[str]]:
    """Which copies come before the image's own packages, and which after them.

    Args:
        listing: what `LIST` holds.
        image: versions of what the image has.
        python: version of the image's Python.

    Raises:
        CannotRun: a copy is not for this Python, or something is neither in the image nor copied.
    """
    distributions = listing["distributions"]
    absent = {need["name"] for need in listing["absent"]}
    chosen = [name for name, one in distributions.items() if one["planned"]]
    for name in chosen:  # it grows meanwhile
        _check_python(name, distributions[name], python)
        for need in _needs(distributions[name], python):
            other, versions = need["name"], need["versions"]
            if other in chosen or (other in image and is_in(image[other], versions)):
                continue
            if other in distributions:
                chosen.append(other)
            elif other in absent and other not in image:
                raise _lacks(name, other, versions)
    return sorted(name for name in chosen if name in image), sorted(name for name in chosen if name not in image)


def told(before: Sequence[str], image: Mapping[str, str], distributions: Mapping[str, Any]) -> Iterator[str]:
    """A line for each package of the image that is not used, since it is another version."""
    for name in before:
        own = distributions[name]["version"]
        if image[name] != own:
            why = "the plan was made by it" if distributions[name]["planned"] else "Primus cannot use the image's"
            yield f"note: {name} {own} is used, not {image[name]} of the image: {why}\n"


def is_in(version: str, versions: str) -> bool:
    """Whether a version is in a range such as ``>=1.2,<2``. What cannot be read is left to the image."""
    release = _RELEASE.match(version)
    return release is None or all(_fits(_numbers(release[1]), part.strip()) for part in versions.split(","))


def _fits(release: list[int], part: str) -> bool:
    match = _RANGE.fullmatch(part)
    if match is None:
        return True
    operator, bound, prefix = match[1], _numbers(match[2]), match[3]
    length = len(bound) if prefix else max(len(release), len(bound))
    mine, theirs = (numbers[:length] + [0] * (length - len(numbers)) for numbers in (release, bound))
    if operator == "~=":
        return mine >= theirs and release[: len(bound) - 1] == bound[:-1]
    return {
        "==": mine == theirs,
        "===": mine == theirs,
        "!=": mine != theirs,
        "<=": mine <= theirs,
        ">=": mine >= theirs,
        "<": mine < theirs,
        ">": mine > theirs,
    }[operator]


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(".")]


def _needs(one: Mapping[str, Any], python: tuple[int, ...]) -> Iterator[Mapping[str, Any]]:
    """What it needs on this Python; a newer one than was thought of needs what the newest of these does."""
    for need in one["needs"]:
        known = [tuple(_numbers(text)) for text in need["pythons"]]
        if python[:2] in known or (python[:2] > (3, 14) and (3, 14) in known):
            yield need


def _check_python(name: str, one: Mapping[str, Any], python: tuple[int, ...]) -> None:
    version = ".".join(map(str, python))
    if is_in(version, one["python"]):
        return
    other = "" if one["planned"] else f", or plan the run where an older {name} is installed"
    raise CannotRun(
        f"Python {version} of the image cannot run {name} {one['version']}",
        f"{name} {one['version']} is for Python {one['python']}",
        f"take an image with such a Python{other}",
    )


def _lacks(name: str, other: str, versions: str) -> CannotRun:
    return CannotRun(
        f"the image has no {other}, which {name} needs",
        "it was not installed where the run was planned, and so it could not come along",
        f"`pip install '{other}{versions}'` there and plan again, or take an image that has it",
    )


if __name__ == "__main__":
    main()
