"""The clock: what it says, and whether anything keeps it right. Clocks of different nodes are compared elsewhere."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.found import warning

_KEEPERS = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys")
"""Names of processes as the kernel cuts them, to 15 characters."""
_UNSYNCHRONIZED = 0x0040
_ERROR_STATE = 5


class _Timex(ctypes.Structure):
    """The beginning of the kernel's ``struct timex``, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def look(about: Looked) -> Outcome:
    """The time now, and who keeps it."""
    facts: dict[str, Value] = {"time": time.time(), **kernel_says(), "keeper": keeper(about.root)}
    return Outcome(facts=facts, findings=tuple(judged(facts, about.plan.target.nodes)))


def kernel_says() -> dict[str, Value]:
    """Whether the kernel takes the clock for right, and by how much it may be wrong at most, in seconds.

    None where a container's profile does not let it be asked.
    """
    timex = _Timex()
    state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    if state < 0:
        return {"synchronized": None, "largest_error_seconds": None}
    right = state != _ERROR_STATE and not timex.status & _UNSYNCHRONIZED
    return {"synchronized": right, "largest_error_seconds": timex.maxerror / 1e6 if right else None}


def keeper(root: Path) -> str | None:
    """The program that keeps the clock; None where none can be seen, as in a container."""
    names = set()
    for pid in filter(str.isdecimal, os.listdir(root / "proc")):
        try:
            names.add((root / "proc" / pid / "comm").read_text(encoding="utf-8", errors="replace").strip())
        except OSError:  # it is gone
            continue
    return next((name for name in _KEEPERS if name in names), None)


def judged(facts: Mapping[str, Value], nodes: int) -> Iterator[Finding]:
    """A clock that nobody keeps matters where there are others to compare with."""
    if nodes > 1 and facts["synchronized"] is False and facts["keeper"] is None:
        yield warning(
            "host.clock",
            "nothing keeps this host's clock right",
            "the kernel says that it is not synchronized, and no time service runs",
            "Start chronyd or systemd-timesyncd: logs of several hosts cannot be compared without.",
        )
