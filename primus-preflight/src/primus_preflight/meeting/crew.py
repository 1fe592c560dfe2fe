"""The workers of a node, one process for each device: started once, ended and started again when a test hangs."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from primus_core import linux
from primus_preflight.agent.ending import kill_group, left_behind
from primus_preflight.meeting.wire import GoneError, Message, Wire
from primus_preflight.model import Node
from primus_preflight.performance.options import Options
from primus_preflight.performance.tokens import Trial

_SERVE = "primus_preflight.workers.serving"


class Worker:
    """One process. Its results are there when `result` is not None."""

    def __init__(self, device: int | None) -> None:
        self.device = device
        self.port = 0
        """Where ranks of groups that it leads meet; 0 while it loads torch."""
        self.broken = ""
        """Why it cannot be used; empty where it can."""
        self.result: Message | None = None
        self._question = 0
        self._stage = "prepare"
        self._start()

    def fileno(self) -> int:
        return self._wire.fileno()

    @property
    def settled(self) -> bool:
        """It is ready, or it never will be."""
        return bool(self.port or self.broken)

    def give(self, request: Message) -> None:
        """Have it run a test."""
        self._question, self.result, self._stage = request["id"], None, "prepare"
        try:
            self._wire.send(request)
        except GoneError as gone:
            self._broke(str(gone))

    def hear(self) -> None:
        """Take what it says."""
        try:
            messages = self._wire.receive()
        except GoneError:
            self._broke(self._ended())
            return
        for message in messages:
            self.port = message.get("port", self.port)
            self.broken = message.get("broken", self.broken)
            self._stage = message.get("stage", self._stage)
            if message.get("id") == self._question:
                self.result = message

    def give_up(self, seconds: float) -> None:
        """It did not answer in time."""
        how = f"no answer within {seconds:g} s; stands in {self._stage!r}"
        self.result = {"status": "timeout", "stage": self._stage, "error": how}

    def restart(self) -> None:
        """Another process in the place of one that hangs or has ended; its result tells if that is left behind."""
        if not self.end() and self.result:
            self.result = {**self.result, "error": f"{self.result['error']}; {left_behind(self._pid)}"}
        self.port, self.broken = 0, ""
        self._start()

    def end(self) -> bool:
        """At once, with all that it started; returns whether it has ended."""
        self._wire.close()
        return kill_group(self._pid)

    def _start(self) -> None:
        ours, its = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _child(its, self.device)
        with contextlib.suppress(OSError):  # whoever comes first: the worker does the same
            os.setpgid(self._pid, self._pid)
        its.close()
        self._wire = Wire(ours)

    def _broke(self, how: str) -> None:
        self.broken = self.broken or how
        self.result = self.result or {"status": "error", "stage": self._stage, "error": how}

    def _ended(self) -> str:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            time.sleep(0.01)
        return "it closed its connection"


@contextlib.contextmanager
def crew(node: Node, tests: Sequence[Trial], options: Options) -> Iterator[list[Worker]]:
    """The workers of a node: one for each device, or as many as the user asks for; none where there are no tests."""
    alone = 2 if any(test.scope == "node" for test in tests) else 1
    count = options.ranks_per_node or node.devices or alone
    on_cpu = node.accelerator == "cpu"
    workers = [Worker(None if on_cpu else index) for index in range(count)] if tests else []
    try:
        yield workers
    finally:
        for worker in workers:
            worker.end()


def _child(connection: socket.socket, device: int | None) -> NoReturn:
    """The forked process: never returns to the code of its parent."""
    try:
        linux.die_with_parent(signal.SIGKILL)
        os.setpgid(0, 0)
        _close_all_but(connection.fileno())
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        serve: Any = importlib.import_module(_SERVE).serve
        serve(connection, device)
    except BaseException as error:  # noqa: BLE001 - told to the agent, in whose code nothing may go on
        traceback.print_exc()
        with contextlib.suppress(GoneError):
            Wire(connection).send({"broken": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _close_all_but(kept: int) -> None:
    """What the agent has open is not the worker's: other workers' connections, the way to the coordinator."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != kept:
            with contextlib.suppress(OSError):  # the folder's own, which is closed by now
                os.close(number)
