"""The coordinator's process: it is a child of its node's agent, which attends the meeting like all others."""

from __future__ import annotations

import os
import resource
import signal
import socket
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from primus_core import linux
from primus_preflight.agent.ending import KILL_SECONDS, ended
from primus_preflight.meeting.book import Book
from primus_preflight.meeting.coordinator import coordinate
from primus_preflight.meeting.records import Records
from primus_preflight.meeting.room import Room
from primus_preflight.model import Measurement
from primus_preflight.performance.options import Options
from primus_preflight.performance.tokens import Trial

_END_SECONDS = 5.0


class Write(Protocol):
    """Keeps measurements."""

    def __call__(self, measurements: Sequence[Measurement], *, complete: bool) -> None: ...


class Holding:
    """A meeting that is held; it starts at once.

    Args:
        listener: where the agents come; is owned from now on.
        expected: how many nodes should come.
        seconds: how long they are waited for.
        host: node that holds it.
        folder: of the preflight, where records of nodes are kept that have another one.
        write: keeps the measurements so far.
    """

    def __init__(
        self,
        listener: socket.socket,
        run_id: str,
        *,
        folder: Path,
        host: int,
        expected: int,
        seconds: float,
        tests: Sequence[Trial],
        options: Options,
        write: Write,
    ) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                _prepare()
                room = Room(listener, run_id)
                room.gather(expected, seconds)
                records, book = Records(folder, room), Book(partial(write, complete=False))
                records.take()
                coordinate(room, host, expected, tests, options, book)
                write(book.measurements, complete=True)
                records.finish()
                room.close({"do": "end"})
                status = 0
            except BaseException:  # noqa: BLE001 - the forked process never returns to the code of its parent
                traceback.print_exc()
            finally:
                os._exit(status)
        listener.close()

    def end(self) -> None:
        """This node may have been told of the end before the others were: the process has a moment to tell them."""
        if ended(self._pid, _END_SECONDS) is None:
            os.kill(self._pid, signal.SIGKILL)
            ended(self._pid, KILL_SECONDS)


def _prepare() -> None:
    """Die with the agent; have room for a connection to each of many thousand nodes."""
    linux.die_with_parent(signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
