"""The lock of an experiment: a file that names its holder, and whose time the holder renews while it lives.

No lock of the operating system: those of network file systems differ, and say nothing about who holds them.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from primus_core.codec import from_json, to_json
from primus_core.errors import ConfigError, PrimusError, RunError
from primus_core.lock.holder import Holder
from primus_core.quantities import duration
from primus_core.rundir import RunDir

NAME = "lock.json"
RENEW_SECONDS = 10.0
STALE_SECONDS = 60.0
"""Not renewed for so long, the lock of a holder that cannot be seen from here counts as left behind."""
_WRITING_SECONDS = 1.0
"""How long a file without a readable holder may be one that is being written."""
_ATTEMPTS = 5


class ExperimentLock:
    """Holds an experiment's folder for one run while it is entered.

    Args:
        again: a scheduler starts the run once more, and has ended its earlier start on whatever host that was: the
            lock of the same run on another host was left behind, however fresh it is.

    Raises, when it is entered:
        RunError: another run holds the experiment, or the folder cannot be written.
    """

    def __init__(
        self,
        rundir: RunDir,
        *,
        again: bool = False,
        renew: float = RENEW_SECONDS,
        stale: float = STALE_SECONDS,
    ) -> None:
        self.path = rundir.experiment / NAME
        self.left_behind: Holder | None = None
        """Whose lock was taken over, where one was left behind."""
        self._rundir, self._again, self._renew, self._stale = rundir, again, renew, stale
        self._text = ""
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="experiment-lock", daemon=True)

    def __enter__(self) -> ExperimentLock:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._acquire()
        except OSError as error:
            raise self._rundir.unwritable(error) from None
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._heart.join()
        with contextlib.suppress(OSError):  # a lock that cannot be removed is one that is left behind
            if self._is_ours():
                self.path.unlink()

    def _acquire(self) -> None:
        """Make the file; no two can. One that was left behind is removed first."""
        for _ in range(_ATTEMPTS):
            self._text = to_json(Holder.this_process(self._rundir))
            if self._created(self.path, self._text):
                return
            seen = _read(self.path)
            if seen is not None:
                self._take_over(seen)
        raise RunError("the lock of the experiment changes hands all the time", where=str(self.path))

    def _take_over(self, text: str) -> None:
        """Remove what was seen, if its holder is gone; by one process at a time, so that no new lock is removed."""
        holder = _holder(text)
        if refused := self._refusal(holder):
            raise refused
        guard = self.path.with_name(f".{NAME}.removing")
        if not self._created(guard, self._text):
            if self._age(guard) > self._stale:
                guard.unlink(missing_ok=True)
            time.sleep(0.1)
            return
        try:
            if _read(self.path) == text:
                self.path.unlink()
                self.left_behind = holder
        finally:
            guard.unlink(missing_ok=True)

    def _refusal(self, holder: Holder | None) -> PrimusError | None:
        """Why the experiment is not free; None for a lock that was left behind."""
        if holder is not None and holder.is_visible:
            if holder.is_alive:
                return self._occupied(holder, f"wait for it, or end it (`kill {holder.pid}` on {holder.host})")
            rest = holder.remaining()
            return self._still_ending(holder, rest) if rest else None
        if self._again and holder is not None and holder.run_id == self._rundir.path.name:
            return None
        age = self._age(self.path)
        if age > (self._stale if holder else _WRITING_SECONDS):
            return None
        if holder is None:
            return RunError("another run is being started in this experiment", where=str(self.path))
        remedy = (
            f"wait for it, or end it (`kill {holder.pid}` on {holder.host}); if that host is gone, "
            f"its lock ends in {duration(self._stale - age)}"
        )
        return self._occupied(holder, remedy)

    def _occupied(self, holder: Holder, remedy: str) -> RunError:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since))
        ago = duration(time.time() - holder.since)
        return RunError(
            "another run is going on in this experiment",
            where=str(self.path.parent),
            why=f"run {holder.run_id}, process {holder.pid} on {holder.host}, since {since} ({ago})",
            remedy=f"{remedy}; or give this run a name of its own: exp_name=NAME",
        )

    def _still_ending(self, holder: Holder, pids: list[int]) -> RunError:
        return RunError(
            "processes of an earlier run are still there",
            where=str(self.path.parent),
            why=f"`primus run` of {holder.run_id} is gone (process {holder.pid}); of its run {_listed(pids)} live",
            remedy="they end by themselves in some seconds: try again; else kill them",
        )

    def _created(self, path: Path, text: str) -> bool:
        """Whether the file was not there before."""
        try:
            file = path.open("x", encoding="utf-8")
        except FileExistsError:
            return False
        try:
            with file:
                file.write(text)
        except OSError:  # such as a full disk
            path.unlink(missing_ok=True)
            raise
        return True

    def _age(self, path: Path) -> float:
        """Seconds since a file was renewed, by the file system's clock, which all hosts share; infinite: it is gone."""
        probe = path.with_name(f".{NAME}.{os.getpid()}")
        try:
            probe.touch()
            return probe.stat().st_mtime - path.stat().st_mtime
        except FileNotFoundError:
            return math.inf
        finally:
            probe.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(self._renew):
            with contextlib.suppress(OSError):  # the file system may be away for a while
                if self._is_ours():
                    os.utime(self.path)

    def _is_ours(self) -> bool:
        return _read(self.path) == self._text


def holder_of(rundir: RunDir) -> Holder | None:
    """The process that runs a run now; None where nobody does. Writes nothing, unlike one that wants the lock."""
    path = rundir.experiment / NAME
    holder = _holder(_read(path) or "")
    if holder is None or holder.run_id != rundir.path.name:
        return None
    try:
        fresh = time.time() - path.stat().st_mtime < STALE_SECONDS
    except FileNotFoundError:
        return None
    return holder if (holder.is_alive if holder.is_visible else fresh) else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _holder(text: str) -> Holder | None:
    """None: nobody can be read of it, because it is being written or its writer died."""
    try:
        return from_json(Holder, text)
    except ConfigError:
        return None


def _listed(pids: list[int]) -> str:
    more = f" and {len(pids) - 4} more" if len(pids) > 4 else ""
    return ", ".join(map(str, pids[:4])) + more
