"""Faults of hardware that the kernel has told of since the node was started."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.quantities import duration
from primus_core.records import frozen
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import error, warning
from primus_preflight.probes.reading import leading, text

RECENT_SECONDS = 86400.0
"""What is older than a day is told, and may have been mended."""
_CHUNK = 8192
_FATAL_XIDS = {48, 62, 64, 74, 79, 94, 95, 119, 120, 136, 140, 143}
"""Of the hardware, by NVIDIA's list of Xid errors; most others come from programs that fail."""
_PCI = r"(?P<who>[0-9a-f]{4}:[0-9a-f:.]+):"
"""A device, as its driver begins a line. Linux says Corrected and Uncorrected to 6.11, then Correctable and so on."""
_MANY = 100
"""Errors of a link that cost nothing but a repetition each; so many speak of a bad contact."""


@frozen(kw_only=True)
class Fault:
    """One kind of what the kernel may tell."""

    kind: str
    mark: str
    """Is in every line that tells of it: most lines are passed over by it alone, and most patterns never compiled."""
    pattern: str
    severe: bool
    """A node that told it lately should not take part."""
    least: int = 1
    """So many are needed to be worth a word."""


def _fault(kind: str, mark: str, pattern: str, *, severe: bool = False, least: int = 1) -> Fault:
    return Fault(kind=kind, mark=mark, pattern=pattern, severe=severe, least=least)


_BUS = rf"{_PCI} PCIe Bus Error: severity="
FAULTS = (
    _fault("xid", "Xid", r"NVRM: Xid \(PCI:(?P<who>[0-9a-fA-F:.]+)\): (?P<code>\d+)", severe=True),
    _fault("ecc", "uncorrectable", r"(?<!no )\b[1-9]\d* (?:new )?uncorrectable hardware errors detected", severe=True),
    _fault("ecc", "EDAC", r"EDAC \S+: [1-9]\d* UE ", severe=True),
    _fault("gpu-reset", "GPU reset", r"(?P<who>[0-9a-f]{4}:[0-9a-f:.]+): (?:amdgpu: )?GPU reset begin"),
    _fault("mce", "[Hardware", r"\[Hardware Error\]: .*(?:Uncorrected|\|UC\||UE\b|fatal)", severe=True),
    _fault("aer", "(Fatal)", rf"{_PCI} (?:AER|PCIe Bus Error): .*Uncorrect(?:ed|able) \(Fatal\)", severe=True),
    _fault("aer-non-fatal", "PCIe Bus", rf"{_BUS}Uncorrect(?:ed|able) \(Non-Fatal\)"),
    _fault("aer-corrected", "PCIe Bus", rf"{_BUS}Correct(?:ed|able),", least=_MANY),
    _fault("link-flap", "own", r"(?P<who>\S+): (?:NIC )?[Ll]ink (?:is )?[Dd]own", least=3),
    _fault("out-of-memory", "Out of", r"Out of memory: Killed process"),
    _fault("hung-task", "blocked", r"INFO: task \S+ blocked for more than \d+ seconds"),
    _fault("file-server", "nfs:", r"nfs: server (?P<who>\S+) not responding", least=3),
)


@frozen(kw_only=True)
class Event:
    """One line of the log that tells of a fault."""

    fault: Fault
    who: str
    seconds: float
    """Since the node was started."""
    said: str


def look(about: Looked) -> Outcome:
    """What the log tells; unavailable where this user may not read it."""
    lines = _lines(about.root / "dev/kmsg")
    uptime = leading(text(about.root / "proc/uptime")) or 0.0
    found = list(events(lines))
    counts: dict[str, Value] = dict(Counter(event.fault.kind for event in found))
    return Outcome(facts={"lines": len(lines), "faults": counts}, findings=tuple(judged(found, uptime)))


def events(lines: Iterable[str]) -> Iterator[Event]:
    """What of the log tells of a fault.

    Args:
        lines: of ``/dev/kmsg``: ``priority,number,microseconds,flags;text``.
    """
    for line in lines:
        head, mark, said = line.partition(";")
        if not mark:  # the second line of a record, which tells a device's name again
            continue
        time = head.split(",")[2:3]
        for fault in [one for one in FAULTS if one.mark in said]:
            match = re.search(fault.pattern, said)
            if match and not _of_a_program(match):
                who = match.groupdict().get("who") or ""
                yield Event(fault=fault, who=who, seconds=int(time[0]) / 1e6 if time else 0.0, said=said.strip())
                break


def judged(found: Iterable[Event], uptime: float) -> Iterator[Finding]:
    """One finding for each kind of fault of each device.

    Args:
        uptime: seconds since the node was started.
    """
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in found:
        groups.setdefault((event.fault.kind, event.who), []).append(event)
    for (kind, who), told in groups.items():
        last = told[-1]
        if len(told) < last.fault.least:
            continue
        ago = max(0.0, uptime - last.seconds)
        say = error if last.fault.severe and ago < RECENT_SECONDS else warning
        of = f" of {who}" if who else ""
        yield say(
            f"host.kernel-log.{kind}",
            f"the kernel told {len(told)} time{'s' * (len(told) != 1)} of a fault{of}: {kind}",
            f"last {duration(ago)} ago: {last.said}",
            "Keep the node out of runs until its hardware has been looked at, or it was restarted and stays silent.",
        )


def _of_a_program(match: re.Match[str]) -> bool:
    """Most of NVIDIA's numbers are those of programs that fail."""
    code = match.groupdict().get("code")
    return code is not None and int(code) not in _FATAL_XIDS


def _lines(path: Path) -> list[str]:
    """All records that there are now; the kernel gives one for each read, a file of a test all."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as failure:
        raise Unavailable(f"the kernel's log cannot be read here: {failure.strerror}") from None
    data = bytearray()
    try:
        while chunk := _chunk(number):
            data += chunk
    finally:
        os.close(number)
    return data.decode(errors="replace").splitlines()


def _chunk(number: int) -> bytes:
    while True:
        try:
            return os.read(number, _CHUNK)
        except BlockingIOError:  # the log's end
            return b""
        except BrokenPipeError:  # the kernel wrote over what was to be read next
            continue
