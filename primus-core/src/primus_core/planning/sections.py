"""The sections of launchers from several places, put on each other option by option."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Origin, Sections, Value
from primus_core.outcome import Finding
from primus_core.planning.nodefiles import with_absolute_path
from primus_core.planning.slurmflags import canonical, merge_flags

CONTAINER = "container"
SLURM = "slurm"
IMAGE_VARIABLE = "DOCKER_IMAGE"
_TEXTS = ("image", "engine", "name", "user", "network", "ipc", "cpus", "memory", "shm_size", "gpus", "python")
_LISTS = ("volume", "env", "device", "capabilities", "arguments")
CONTAINER_OPTIONS = frozenset((*_TEXTS, *_LISTS, "clean", "mount_code"))
"""Options of `container:` that Primus knows; what else stands below `container.options:` is the runtime's."""
_OTHER_NAMES = {
    "volumes": "volume",
    "devices": "device",
    "cap_add": "capabilities",
    "capability": "capabilities",
}
_ADDED = frozenset(("volume", "env", "device", "arguments"))
"""Lists to which the command line adds; everywhere else the stronger list counts alone."""
_COMMAND_LINE = "command line"


def put_together(layers: Iterable[Sections], cwd: str, home: str = "") -> dict[str, dict[str, Leaf]]:
    """The options of each launcher by their one name, of every option the strongest, with what it overrode.

    Args:
        layers: weakest first.
        cwd: absolute; what relative paths of the command line and of files' names are relative to.
        home: what ``~`` in a path means.

    Raises:
        ConfigError: a place says one option under two names.
    """
    merged: dict[str, dict[str, Leaf]] = {}
    for layer in layers:
        for name, leaves in layer.items():
            one = _named(name, leaves, cwd, home)
            merged[name] = _over(name, merged.get(name, {}), one)
    return merged


def image_layer(env: Mapping[str, str]) -> Sections:
    """What the variable DOCKER_IMAGE says."""
    image = env.get(IMAGE_VARIABLE)
    return {CONTAINER: {"image": Leaf(value=image, origin=Origin(file=IMAGE_VARIABLE))}} if image else {}


def unused_variable(sections: Sections) -> tuple[Finding, ...]:
    """What to tell where DOCKER_IMAGE names an image, and something stronger another one."""
    leaf = sections.get(CONTAINER, {}).get("image")
    other = next((one.value for one in (leaf.overrode if leaf else ()) if one.origin.file == IMAGE_VARIABLE), None)
    if leaf is None or other in (None, leaf.value):
        return ()
    return (
        Finding(
            check="container.image",
            severity="warning",
            summary=f"{IMAGE_VARIABLE} does not count",
            evidence=f"it is {other}, and {leaf.origin} names {leaf.value}, which is the image of this run",
        ),
    )


def split_command_line(sections: Sections) -> tuple[Sections, Sections]:
    """What an experiment's files say, and what ``container.image=...`` and its like do on the command line."""
    asked: dict[str, dict[str, Leaf]] = {}
    rest: dict[str, dict[str, Leaf]] = {}
    for name, leaves in sections.items():
        for key, leaf in leaves.items():
            part = asked if leaf.origin.layer == _COMMAND_LINE else rest
            part.setdefault(name, {})[key] = leaf
    return rest, asked


def container_env(leaves: Mapping[str, Leaf]) -> dict[str, str]:
    """The variables that ``container.env`` sets, not those that it only names."""
    leaf = leaves.get("env")
    pairs = (str(one).partition("=") for one in _list(leaf.value if leaf else None))
    return {name: value for name, equals, value in pairs if equals}


def _named(section: str, leaves: Mapping[str, Leaf], cwd: str, home: str) -> dict[str, Leaf]:
    """The options by the one name that each has."""
    if section == SLURM:
        once = _once(section, ((canonical(key), key, leaf) for key, leaf in leaves.items()))
        return {key: with_absolute_path(key, leaf, _folder(leaf, cwd)) for key, leaf in once.items()}
    if section != CONTAINER:
        return dict(leaves)
    named = _once(section, ((_container_name(key), key, leaf) for key, leaf in leaves.items()))
    if "volume" in named:
        named["volume"] = _with_paths(named["volume"], cwd, home)
    return named


def _once(section: str, options: Iterable[tuple[str, str, Leaf]]) -> dict[str, Leaf]:
    """Refuse one option under two names."""
    found: dict[str, Leaf] = {}
    keys: dict[str, str] = {}
    for name, key, leaf in options:
        if name in found:
            raise ConfigError(
                f"`{section}.{keys[name]}` and `{section}.{key}` are one option",
                where=str(leaf.origin),
                why=f"the other one is at {found[name].origin}",
                remedy="keep one of them",
            )
        found[name], keys[name] = leaf, key
    return found


def _container_name(key: str) -> str:
    """``options.shm-size`` is ``shm_size``; ``options.ulimit``, which is the runtime's, stays as it is."""
    below = key.removeprefix("options.")
    plain = below.replace("-", "_")
    plain = _OTHER_NAMES.get(plain, plain)
    return plain if plain in CONTAINER_OPTIONS else key


def spellings(section: str, option: str) -> list[str]:
    """Every key by which a section may name an option."""
    others = [other for other, name in _OTHER_NAMES.items() if name == option] if section == CONTAINER else []
    dashed = [name.replace("_", "-") for name in (option, *others)] if section == CONTAINER else []
    return list(dict.fromkeys((option, *others, *dashed)))


def _with_paths(leaf: Leaf, cwd: str, home: str) -> Leaf:
    """The volumes with absolute paths on the host."""
    folder = _folder(leaf, cwd)
    volumes = leaf.value if isinstance(leaf.value, list) else [] if leaf.value is None else [leaf.value]
    return evolve(leaf, value=[absolute_volume(str(one), folder, home) for one in volumes], text=None)


def _folder(leaf: Leaf, cwd: str) -> str:
    """What a path in an option is relative to: the folder of the file that says it, or the user's."""
    return os.path.join(cwd, os.path.dirname(leaf.origin.file if leaf.origin.line else ""))


def absolute_volume(text: str, folder: str, home: str) -> str:
    """``HOST[:CONTAINER[:MODE]]`` with an absolute HOST; a word that is no path here is the name of a volume."""
    host, colon, rest = text.partition(":")
    if host == "~" or host.startswith("~/"):
        host = home + host[1:]
    path = os.path.normpath(os.path.join(folder, host)) if host else host
    if not (host.startswith((".", "/")) or "/" in host or (not colon and os.path.exists(path))):
        path = host
    return f"{path}{colon}{rest}" if colon else path


def _over(section: str, base: Mapping[str, Leaf], top: Mapping[str, Leaf]) -> dict[str, Leaf]:
    if section == SLURM:
        kept = merge_flags(_values(base), _values(top))
        base = {key: leaf for key, leaf in base.items() if key in kept}
    return {**base, **{key: _leaf_over(key, base.get(key), leaf) for key, leaf in top.items()}}


def _leaf_over(key: str, base: Leaf | None, top: Leaf) -> Leaf:
    if base is None:
        return top
    added = key in _ADDED and top.origin.layer == _COMMAND_LINE
    value = [*_list(base.value), *_list(top.value)] if added else top.value
    return evolve(top, value=value, overrode=(*top.overrode, evolve(base, overrode=()), *base.overrode))


def _list(value: Value) -> Iterator[Value]:
    yield from value if isinstance(value, list) else [] if value is None else [value]


def _values(leaves: Mapping[str, Leaf]) -> dict[str, Value]:
    return {key: as_written(leaf) for key, leaf in leaves.items()}


def as_written(leaf: Leaf) -> Value:
    """The value of an option whose type nobody here knows: times and numbers as the text that they were."""
    return leaf.value if leaf.text is None or isinstance(leaf.value, bool) else leaf.text
