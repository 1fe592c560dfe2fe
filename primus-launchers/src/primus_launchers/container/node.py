"""What of this host a container is given: device files, groups, the user."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from primus_core.errors import ConfigError, DependencyError
from primus_core.kfd import kfd_accelerators


@frozen(kw_only=True)
class Caller:
    """Who runs the program, and where."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    host: str
    selinux: bool


def caller() -> Caller:
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a user of a directory that this host does not know
        name = str(uid)
    return Caller(
        uid=uid,
        gid=os.getgid(),
        groups=tuple(sorted({*os.getgroups()} - {os.getgid()})),
        name=name,
        host=os.uname().nodename,
        selinux=os.path.exists("/sys/fs/selinux/enforce"),
    )


def group_ids(names: Sequence[str], devices: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the groups that may open the devices: an image knows other names, or none."""
    found = set()
    for name in names:
        with suppress(KeyError):
            found.add(grp.getgrnam(name).gr_gid)
    owners = (os.stat(path).st_gid for path in _nodes(devices))
    return tuple(sorted(found.union(owners) - {0}))


def _nodes(devices: Sequence[str]) -> Iterator[str]:
    """The device files themselves, those inside of folders too."""
    for path in devices:
        if os.path.isdir(path):
            yield from (one.path for one in os.scandir(path) if not one.is_dir())
        elif os.path.exists(path):
            yield path


def chosen_gpus(asked: str) -> tuple[int, ...] | int | None:
    """What ``--gpus`` asks for: so many, those with these numbers, or all (None).

    Raises:
        ConfigError: it is none of these.
    """
    text = asked.removeprefix("device=").strip('"')
    if text in ("", "all"):
        return None
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise ConfigError(f"--gpus {asked}: neither a number, nor numbers, nor all", remedy="--gpus 4, or --gpus 0,1")
    given = tuple(map(int, numbers))
    return given if "," in text or asked.startswith("device=") else given[0]


def render_devices(asked: str, root: Path = Path("/")) -> tuple[str, ...]:
    """The device files of some of this host's ROCm GPUs, in the order in which ROCm counts them.

    Args:
        asked: as ``--gpus`` has it.
        root: the file system to look at; another one than ``/`` only in tests.

    Raises:
        ConfigError: what is asked for is not understood.
        DependencyError: the host has not so many.
    """
    minors = [gpu["drm_render_minor"] for gpu in kfd_accelerators(root) if gpu.get("drm_render_minor")]
    wanted = chosen_gpus(asked)
    numbers = range(wanted) if isinstance(wanted, int) else wanted or range(len(minors))
    if any(number >= len(minors) for number in numbers):
        raise DependencyError(
            f"--gpus {asked}: {os.uname().nodename} has {len(minors)} GPUs",
            why="so many are listed by the kernel's compute driver (KFD)",
            remedy="ask for fewer",
        )
    return tuple(f"/dev/dri/renderD{minors[number]}" for number in numbers)
