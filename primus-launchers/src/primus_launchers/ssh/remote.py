"""``python -m primus_launchers.ssh.remote``: one host's part, started by ssh, told by its standard input what to do.

It ends everything that it started when it is told so, when its input ends, or when nothing has come for a while: a
connection that is cut says nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from primus_core import linux
from primus_core.errors import PrimusError
from primus_core.log.events import encode
from primus_core.plan import Process
from primus_core.submit.processes import Child, descendants, kill, signal_group, start
from primus_launchers.ssh import checks, meeting
from primus_launchers.ssh.inbox import Inbox
from primus_launchers.ssh.wire import BEATS, KIND

_FIRST_SECONDS = 60.0
_LOST_GRACE = 5.0
"""For the ranks to say why they end, once nobody listens any more."""
_TICK = 0.2


def tell(state: str, **values: object) -> None:
    """Say something in one write, so that it does not mix with what the ranks write to the same pipe."""
    with contextlib.suppress(OSError):
        os.write(1, encode({"kind": KIND, "state": state, **values}))


class Remote:
    """The program's state."""

    def __init__(self, inbox: Inbox, request: Mapping[str, Any]) -> None:
        self._inbox, self._request = inbox, request
        self._lost_seconds = float(request["lost_seconds"])
        self._listening: socket.socket | None = None
        self._child: Child | None = None
        self._deadline: float | None = None

    def run(self) -> int:
        """Check, wait for the start, run the ranks; returns the exit status."""
        threading.Thread(target=self._beat, daemon=True).start()
        if not self._is_fit():
            return 1
        while not self._ended():
            if self._inbox.silent(self._lost_seconds):
                self._end(_LOST_GRACE)
            elif order := self._inbox.next(_TICK):
                self._obey(order)
        return self._leave()

    def _is_fit(self) -> bool:
        found = list(checks.problems(self._request))
        try:
            if self._request["node"] == 0 or self._request["runner"] == "plain":
                self._listening = meeting.listen(self._request["host"], self._request["port"])
        except PrimusError as error:
            found.append(error)
        if found:
            refuse(found)
            return False
        port = self._listening.getsockname()[1] if self._listening else 0
        here = meeting.address(os.environ)
        tell("ready", name=socket.gethostname(), machine=checks.machine(), address=here, port=port)
        return True

    def _obey(self, order: Mapping[str, Any]) -> None:
        if order["do"] == "meet":
            self._meet(order)
        elif order["do"] == "start":
            self._start(order)
        elif order["do"] == "signal" and self._child:
            signal_group(self._child, order["number"])
        elif order["do"] == "end":
            self._end(order["grace"])

    def _meet(self, order: Mapping[str, Any]) -> None:
        try:
            if self._request["node"]:
                meeting.reach(self._request["host"], order["address"], order["port"])
        except PrimusError as error:
            refuse([error])
            self._end(0)
        else:
            tell("met")

    def _start(self, order: Mapping[str, Any]) -> None:
        if self._listening:
            self._listening.close()
        request = self._request
        options = [
            f"--nnodes={request['nodes']}",
            f"--node-rank={request['node']}",
            f"--nproc-per-node={request['nproc']}",
            f"--master-addr={order['address']}",
            f"--master-port={order['port']}",
            "--max-restarts=0",
            *([f"--log-dir={request['log_dir']}/torchrun-{request['node']}"] if request["log_dir"] else []),
        ]
        argv = (request["python"], "-m", f"primus_launchers.{request['runner']}", *options, *request["argv"])
        os.chdir(request["workdir"] or ".")
        self._child = start(Process(argv=argv), {**os.environ, **request["env"]}, shares_output=True)

    def _ended(self) -> bool:
        if self._deadline is not None and time.monotonic() > self._deadline:
            return True
        return self._child is not None and self._child.poll() is not None

    def _end(self, grace: float) -> None:
        """End in good order, once; where nothing runs there is nothing to wait for."""
        if self._deadline is None:
            self._deadline = time.monotonic() + (grace if self._child else 0)
            if self._child:
                signal_group(self._child, signal.SIGQUIT)  # not SIGTERM: nobody can finish an iteration any more
        time.sleep(_TICK)

    def _leave(self) -> int:
        """Leave nothing behind, and say how it went."""
        while left := descendants(os.getpid()):
            kill(left)
            time.sleep(0.01)
        status = self._child.wait() if self._child else 1
        if not self._inbox.silent(self._lost_seconds):
            tell("ended", status=status)
        return 128 - status if status < 0 else status

    def _beat(self) -> None:
        while True:
            tell("alive")
            time.sleep(self._lost_seconds / BEATS)


def refuse(errors: list[PrimusError]) -> None:
    tell("refused", problems=[one.told() for one in errors], exit_code=int(errors[0].exit_code))


def main() -> int:
    """The program; returns its exit status."""
    linux.adopt_orphans()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # the end of the input says it better
    inbox = Inbox(sys.stdin.fileno())
    request = inbox.next(_FIRST_SECONDS)
    return Remote(inbox, request).run() if request else 1


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # a thread that waits for a connection which is gone must not keep the process
