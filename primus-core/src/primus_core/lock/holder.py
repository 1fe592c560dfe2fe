"""Who holds a lock, and whether that process still lives."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from attrs import frozen

from primus_core import linux
from primus_core.rundir import RunDir


@frozen(kw_only=True)
class Holder:
    """The process of ``primus run`` that holds an experiment."""

    run_id: str
    run_dir: str
    host: str
    pid: int
    since: float
    """Seconds since the epoch."""
    born: int
    """When the process began, in the kernel's ticks: another process may get the same number later."""
    realm: str
    """Boot and process namespace: the number means the same process only to those who share both."""

    @classmethod
    def this_process(cls, rundir: RunDir) -> Holder:
        pid = os.getpid()
        return cls(
            run_id=rundir.path.name,
            run_dir=str(rundir.path),
            host=socket.gethostname(),
            pid=pid,
            since=time.time(),
            born=_born(pid) or 0,
            realm=_realm(),
        )

    @property
    def is_visible(self) -> bool:
        """Whether the table of processes here shows the holder while it lives: same host, not another container."""
        return self.realm == _realm()

    @property
    def is_alive(self) -> bool:
        """For a holder that is visible."""
        return _born(self.pid) == self.born

    def remaining(self) -> list[int]:
        """Ranks and launchers of its run that live on, by their command lines; for a holder that is visible."""
        wanted = {b"primus_core.rank", str(RunDir(Path(self.run_dir)).plan).encode()}
        return [one.pid for one in linux.processes() if not one.ended and wanted <= set(_words(one.pid))]


def _realm() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}"


def _born(pid: int) -> int | None:
    """None: there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])


def _words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
