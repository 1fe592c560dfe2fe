"""Processes that hold accelerators before the run: what another job or a crashed one left behind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.records import frozen
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import warning
from primus_preflight.probes.reading import text

_DEVICE = re.compile(r"/dev/(?:nvidia\d+|kfd|dri/renderD\d+)")
_SERVICES = {
    "nvidia-persiste",
    "nv-hostengine",
    "dcgm-exporter",
    "nvidia-smi",
    "rdcd",
    "gpuagent",
    "amd-smi",
    "rocm-smi",
    "Xorg",
    "Xwayland",
    "gnome-shell",
}
"""Of the system, as the kernel cuts their names, to 15 characters."""
_SHOWN = 8


@frozen(kw_only=True)
class Holder:
    """A process that has an accelerator open."""

    pid: int
    name: str
    user: int | None
    devices: tuple[str, ...]
    """Files; empty where the driver alone tells of it."""

    def __str__(self) -> str:
        return f"{self.name or 'a process'} (process {self.pid}, user id {self.user})"


def look(about: Looked) -> Outcome:
    """Who holds what. Other users' processes are seen by root, and by all through AMD's driver."""
    root = about.root
    if not any((root / "dev" / name).exists() for name in ("nvidia0", "kfd", "dri")):
        raise Unavailable("this host has no accelerator")
    own = family() if root == Path("/") else frozenset()
    found = [holder for holder in holders(root) if holder.pid not in own and holder.name not in _SERVICES]
    told: list[Value] = [{"pid": one.pid, "name": one.name, "user": one.user} for one in found]
    return Outcome(facts={"holders": told}, findings=tuple(judged(found)))


def holders(root: Path) -> Iterator[Holder]:
    """Every process that has an accelerator open, in the order of their numbers."""
    driver = _known_to_kfd(root)
    for pid in sorted(map(int, filter(str.isdecimal, os.listdir(root / "proc")))):
        devices = tuple(sorted(set(_open_devices(root / "proc" / str(pid) / "fd"))))
        if devices or pid in driver:
            folder = root / "proc" / str(pid)
            yield Holder(pid=pid, name=text(folder / "comm"), user=_user(folder), devices=devices)


def family() -> frozenset[int]:
    """This process, those above it, and all that they have started."""
    from primus_core.linux import processes  # here: dear, and on hosts with accelerators alone

    parents = {one.pid: one.parent for one in processes()}
    line = [os.getpid()]
    while (above := parents.get(line[-1], 0)) > 1:
        line.append(above)
    mine = {os.getppid(), *line}
    return frozenset(mine | {pid for pid, parent in parents.items() if parent in mine})


def judged(found: list[Holder]) -> Iterator[Finding]:
    if not found:
        return
    who = ", ".join(map(str, found[:_SHOWN])) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    yield warning(
        "host.strays",
        f"accelerators are held by {len(found)} other process{'es' * (len(found) != 1)}",
        who,
        "End them where they are left over from an earlier job: they take memory, and time in tests.",
    )


def _open_devices(folder: Path) -> Iterator[str]:
    try:
        names = os.listdir(folder)
    except OSError:  # another user's, or gone
        return
    for name in names:
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue
        if _DEVICE.fullmatch(target):
            yield target


def _known_to_kfd(root: Path) -> set[int]:
    folder = root / "sys/class/kfd/kfd/proc"
    return {int(one.name) for one in folder.glob("[0-9]*")} if folder.is_dir() else set()


def _user(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None
