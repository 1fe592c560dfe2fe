"""``python -m primus_launchers.slurm.node --nproc N -- COMMAND...``: one node's part, started by ``srun``.

It looks whether the ranks can start here, learns where they meet, starts the command that starts them, and passes on
signals that come from the submitting side or from Slurm itself. It leaves nothing behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from primus_core import linux
from primus_core.errors import PrimusError, RunError, raise_all
from primus_core.log.events import Event, encode
from primus_core.plan import Process
from primus_core.submit.processes import Child, descendants, kill, signal_group, start
from primus_launchers.container.relay import Signals, lines_of
from primus_launchers.programs import parse_before
from primus_launchers.slurm import binding, checks, frames
from primus_launchers.slurm.place import Place
from primus_launchers.slurm.wire import END_SECONDS, KIND, LOST_SECONDS
from primus_launchers.ssh import meeting
from primus_launchers.ssh.inbox import Inbox

_FIRST_SECONDS = 60.0
_LOST_GRACE = 5.0
"""For the ranks to say why they end, once nobody listens any more."""
_CANCEL_SECONDS = 10.0
_TICK = 0.2
_ENDING = (signal.SIGINT, signal.SIGTERM)


class Node:
    """The program's state."""

    def __init__(self, args: argparse.Namespace, inbox: Inbox, env: Mapping[str, str]) -> None:
        self._args, self._inbox, self._env = args, inbox, env
        self._signals = Signals()
        self._place = Place.of(env)
        self._request: Mapping[str, Any] = {}
        self._lost_seconds = LOST_SECONDS
        self._told: set[int] = set()
        """Signals that end the ranks and were passed on: torchrun takes a second one amiss."""
        self._deadline: float | None = None
        self._lost = False

    def run(self) -> int:
        """Returns the exit status of the command."""
        self._signals.install()
        self._request = self._inbox.next(_FIRST_SECONDS) or {}
        if not self._request:
            return self._leave(RunError("nobody said what to start"))
        self._lost_seconds = float(self._request["lost_seconds"])
        try:
            start_at = self._meet()
        except PrimusError as error:
            return self._leave(error)
        return self._work(start_at) if start_at else 128 + signal.SIGTERM

    def _meet(self) -> Mapping[str, Any] | None:
        """Wait until all nodes can start; None where they shall not.

        Raises:
            PrimusError: this one cannot.
        """
        raise_all(list(checks.problems(self._request, self._place.host)))
        first = self._place.number == 0
        listening = self._place.listen(int(self._request["port"])) if first or self._args.apart else None
        here = {"address": self._place.address(self._env), "port": listening.getsockname()[1]} if listening else {}
        self._tell("ready", job=self._place.job, hosts=self._place.hosts, **here)
        while order := self._next_order():
            if order["do"] == "meet":
                if not first:
                    meeting.reach(self._place.host, order["address"], order["port"])
                self._tell("met")
            elif order["do"] == "start":
                if listening:
                    listening.close()
                return order
            else:
                break
        return None

    def _next_order(self) -> dict[str, Any] | None:
        """What to do next; None where Slurm or the loss of the submitting side says: nothing more."""
        while not self._inbox.silent(self._lost_seconds):
            if order := self._inbox.next(_TICK):
                return order
            if set(self._signals.take()) & {*_ENDING, signal.SIGQUIT}:
                return None
        self._lost = True
        return None

    def _work(self, order: Mapping[str, Any]) -> int:
        self._notice(binding.widen(self._args.nproc, self._env) if not self._args.bound else "")
        child = start(Process(argv=tuple(self._args.argv)), self._variables(order))
        for said in lines_of(child):
            if said:
                self._write(frames.Line(self._place.number, *said))
            else:
                self._tick(child)
        status = child.wait()
        kill(descendants(os.getpid()))
        status = 128 - status if status < 0 else status
        self._tell("ended", status=status)
        if status and not (self._lost or self._args.apart) and self._deadline is None:
            self._wait_for_the_end()
        if self._lost:
            self._cancel()
        return status

    def _variables(self, order: Mapping[str, Any]) -> dict[str, str]:
        """Of the ranks: Slurm's, those that the submitting side gives, and where all meet."""
        place = {
            "NNODES": str(self._request["nodes"]),
            "NODE_RANK": str(self._place.number),
            "MASTER_ADDR": str(order["address"]),
            "MASTER_PORT": str(order["port"]),
        }
        for_torchrun = {f"PET_{name}": value for name, value in place.items()}
        inherited = binding.without_traces(self._env) if not self._args.bound else dict(self._env)
        count = {"GPUS_PER_NODE": str(self._args.nproc)}
        return {**inherited, **self._request["env"], **place, **count, **for_torchrun}

    def _tick(self, child: Child) -> None:
        for number in self._signals.take():
            self._pass_on(child, number)
        while order := self._inbox.next(0):
            if order["do"] == "signal":
                self._lost_seconds = float(order["lost_seconds"])
                self._pass_on(child, order["number"])
            elif order["do"] == "end":
                self._end(child, order["grace"])
        if self._inbox.silent(self._lost_seconds) and not self._lost:
            self._lost = True
            self._end(child, _LOST_GRACE)
        if self._deadline is not None and time.monotonic() > self._deadline:
            kill(descendants(os.getpid()))

    def _pass_on(self, child: Child, number: int) -> None:
        if self._deadline is None and not (number in _ENDING and self._told):
            self._told |= {number} & set(_ENDING)
            signal_group(child, number)

    def _end(self, child: Child, grace: float) -> None:
        """End in good order, once."""
        if self._deadline is None:
            self._deadline = time.monotonic() + grace
            signal_group(child, signal.SIGQUIT)  # not SIGTERM: nobody can finish an iteration any more

    def _wait_for_the_end(self) -> None:
        """Let the other nodes be told what it means before Slurm, which sees a failed task, ends them."""
        limit = time.monotonic() + END_SECONDS
        while time.monotonic() < limit and not self._inbox.silent(self._lost_seconds):
            if (order := self._inbox.next(_TICK)) and order["do"] == "end":
                time.sleep(_TICK)  # the same word is on its way to them
                return

    def _cancel(self) -> None:
        """Give the nodes back: the srun that got them is gone, and Slurm may not notice for long."""
        if self._place.number == 0 and not self._request["keep_job"]:
            with suppress(PrimusError, OSError):
                child = start(Process(argv=("scancel", "--quiet", self._place.job)), self._env)
                end = time.monotonic() + _CANCEL_SECONDS
                while child.poll() is None and time.monotonic() < end:
                    time.sleep(_TICK)

    def _leave(self, error: PrimusError) -> int:
        """Say why nothing is started here."""
        code = int(error.exit_code)
        self._tell("refused", problems=[problem.told() for problem in error.problems], exit_code=code)
        self._wait_for_the_end()
        return code

    def _notice(self, text: str) -> None:
        if text and self._request["env"].get("PRIMUS_CONSOLE") == "events":
            text = f"{self._place.host}: {text}"
            self._write(frames.Line(self._place.number, "out", _line({"kind": "notice", "topic": KIND, "text": text})))
        elif text:
            self._write(frames.Line(self._place.number, "err", f"slurm: {text}".encode()))

    def _tell(self, state: str, **values: object) -> None:
        said = _line({"kind": KIND, "state": state, "host": self._place.host, **values})
        self._write(frames.Line(self._place.number, "out", said))

    def _write(self, line: frames.Line) -> None:
        data = frames.encode(line)
        with suppress(OSError):  # nobody reads any more
            while data:
                data = data[os.write(1, data) :]


def _line(event: Event) -> bytes:
    return encode(event).rstrip(b"\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="primus_launchers.slurm.node", allow_abbrev=False)
    parser.add_argument("--nproc", type=int, default=1, help="ranks on each node")
    parser.add_argument("--apart", action="store_true", help="no node waits for another, or ends with it")
    parser.add_argument("--bound", action="store_true", help="the user chose how tasks are bound to CPUs")
    return parse_before(parser, argv)


def main() -> int:
    """The program; returns its exit status."""
    linux.adopt_orphans()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return Node(parse(sys.argv[1:]), Inbox(sys.stdin.fileno()), os.environ).run()


if __name__ == "__main__":
    os._exit(main())  # a thread waits for the input
