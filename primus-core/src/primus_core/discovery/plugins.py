"""The installed plugins as data, also the broken and the contested ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from attrs import evolve

from primus_core.discovery.metadata import Described, described
from primus_core.discovery.modules import find_module
from primus_core.records import frozen

Group: TypeAlias = Literal[
    "primus.backends",
    "primus.ranks",
    "primus.launchers",
    "primus.preflight",
    "primus.presets",
    "primus.checkpoints",
    "primus.commands",
]
"""Entry-point groups that a distribution may fill."""

GROUPS: tuple[Group, ...] = get_args(Group)

KINDS: dict[Group, str] = {
    "primus.backends": "back end",
    "primus.ranks": "back end in the rank",
    "primus.launchers": "launcher",
    "primus.preflight": "preflight",
    "primus.presets": "presets",
    "primus.checkpoints": "checkpoint codec",
    "primus.commands": "command",
}

State: TypeAlias = Literal["ok", "duplicate", "broken"]

_VALUE = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)(\s*:\s*(?P<attribute>[\w.]+))?\s*(\[.*\])?")


@frozen(kw_only=True)
class PluginInfo:
    """One entry point, as its distribution declares it."""

    group: Group
    name: str
    distribution: str
    version: str
    value: str
    """``module`` or ``module:attribute``, unparsed."""
    state: State = "ok"
    problem: str = ""
    """What is wrong, in one sentence; empty where ``state`` is ``ok``."""

    @property
    def kind(self) -> str:
        """The group in a user's words."""
        return KINDS[self.group]

    @property
    def module(self) -> str:
        """Dotted name of the module; empty where the value cannot be read."""
        match = _VALUE.fullmatch(self.value)
        return match["module"] if match else ""

    @property
    def attribute(self) -> str:
        """Dotted attribute of the module; empty: the module itself."""
        match = _VALUE.fullmatch(self.value)
        return (match["attribute"] or "") if match else ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} of {self.distribution} {self.version}"


@frozen
class Plugins:
    """Every plugin of this installation, sorted by group, name and distribution."""

    all: tuple[PluginInfo, ...] = ()

    def __iter__(self) -> Iterator[PluginInfo]:
        return iter(self.all)

    def of(self, group: Group) -> tuple[PluginInfo, ...]:
        return tuple(info for info in self.all if info.group == group)


def scan() -> Plugins:
    """Read the entry points of all distributions on ``sys.path``, once. Imports no plugin."""
    found = [info for distribution in _visible() for info in _declared(distribution)]
    found.sort(key=lambda info: (GROUPS.index(info.group), info.name, info.distribution))
    return Plugins(tuple(_judged(info, found) for info in found))


def _visible() -> Iterator[Described]:
    """Distributions with Primus plugins; of several with one name, the first on ``sys.path``, as pip sees it."""
    seen: set[str] = set()
    for distribution in described():
        if "[primus." not in _entry_points(distribution):
            continue
        name = re.sub(r"[-_.]+", "-", _name(distribution)).lower()
        if name not in seen:
            seen.add(name)
            yield distribution


def _entry_points(distribution: Described) -> str:
    try:
        return distribution.read_text("entry_points.txt") or ""
    except (OSError, UnicodeDecodeError):
        return ""


def _name(distribution: Described) -> str:
    return metadata_field(distribution, "Name") or "(unnamed distribution)"


def metadata_field(distribution: Described, key: str) -> str:
    """A field of METADATA; empty where the file or the field is missing."""
    return next(metadata_fields(distribution, key), "")


def metadata_fields(distribution: Described, key: str) -> Iterator[str]:
    """A field of METADATA that may be there several times.

    The standard library's parser reads the whole file, which may hold a long description, as an e-mail.
    """
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except (OSError, UnicodeDecodeError):
        return
    head = text.partition("\n\n")[0]
    yield from (line[len(key) + 2 :].strip() for line in head.splitlines() if line.startswith(f"{key}: "))


def _declared(distribution: Described) -> Iterator[PluginInfo]:
    name = _name(distribution)
    version = metadata_field(distribution, "Version") or "?"
    for group, line in _lines(_entry_points(distribution)):
        plugin, _, value = (part.strip() for part in line.partition("="))
        yield PluginInfo(group=group, name=plugin, distribution=name, version=version, value=value)


def _lines(text: str) -> Iterator[tuple[Group, str]]:
    """Lines of the groups that Primus knows. The standard library's parser fails whole on one bad line."""
    section = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("["):
            section = line.strip("[] ")
        elif not line.startswith(("#", ";")):
            yield from ((group, line) for group in GROUPS if group == section)


def _judged(info: PluginInfo, all_infos: Iterable[PluginInfo]) -> PluginInfo:
    same = [other for other in all_infos if (other.group, other.name) == (info.group, info.name) and other is not info]
    if same:
        others = ", ".join(sorted(f"{other.distribution} {other.version}" for other in same))
        return evolve(info, state="duplicate", problem=f"the name is also claimed by {others}")
    problem = _problem(info)
    return evolve(info, state="broken", problem=problem) if problem else info


def _problem(info: PluginInfo) -> str:
    if not info.module:
        return f"its entry point {info.value!r} is not `module` or `module:attribute`"
    if find_module(info.module) is None:
        return f"its module {info.module} is not there"
    return ""
