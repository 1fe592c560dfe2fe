"""``python -m primus_launchers.slurm.step OPTIONS -- srun ...``: runs ``srun``, and what it starts, to the end.

``srun`` would end the job at the first SIGTERM or the second Ctrl-C. So it gets no signal: they go through its standard
input to the program on each node. When one node fails, the others are told to end too. Events of the ranks pass
through; other output is written with the name of its node before it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from primus_core import linux
from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError
from primus_core.log.events import encode
from primus_core.plan import Process
from primus_core.screens import problem_lines
from primus_core.submit.lines import sort_out
from primus_core.submit.processes import Child, descendants, kill, signal_group, start
from primus_launchers.container.relay import Signals, lines_of
from primus_launchers.programs import parse_before, problems_event
from primus_launchers.slurm import faults
from primus_launchers.slurm.frames import Joiner, Line
from primus_launchers.slurm.nodelist import expand
from primus_launchers.slurm.wire import BEATS, END_SECONDS, GRACE_SECONDS, INTERRUPTED_LOST_SECONDS, KIND, LOST_SECONDS
from primus_launchers.ssh.checks import digest
from primus_launchers.ssh.wire import line

_OTHERS_SECONDS = 3.0
"""How long other nodes may still say that they fail too, before anything is started."""
_APART_SECONDS = 20.0
"""How long nodes that do not depend on each other wait for those that are not there yet."""
_KILL_SECONDS = 4.0
_BEAT_TICK = 0.5
_KEPT = 40
_ENDING = (signal.SIGINT, signal.SIGTERM)
_ALWAYS_SENT = ("PRIMUS_", "TORCH_ELASTIC_")
_ERRORS = {kind.exit_code: kind for kind in (ConfigError, DependencyError, RunError)}


class NodeState:
    """What is known of one node."""

    def __init__(self) -> None:
        self.state = "silent"
        self.host = ""
        self.status: int | None = None


class Step:
    """The program's state."""

    def __init__(self, args: argparse.Namespace, env: Mapping[str, str]) -> None:
        self._args, self._env = args, env
        self._events = env.get("PRIMUS_CONSOLE") == "events"
        self._signals = Signals()
        self._joiner = Joiner()
        self._nodes = [NodeState() for _ in range(args.nodes)]
        self._phase = "ready"
        """What the nodes are to say next: ready, met, ended."""
        self._known: dict[int, Mapping[str, Any]] = {}
        """What nodes say that others can come to, by number."""
        self._began: float | None = None
        """When the first of them did."""
        self._errors: list[tuple[int, PrimusError]] = []
        """With the number of the node: they are told in its order."""
        self._said: deque[str] = deque(maxlen=_KEPT)
        """The last lines of Slurm's own."""
        self._lost_seconds = args.lost_seconds
        self._failed = 0
        """The exit status of the first node whose ranks failed; the others end because of it."""
        self._lost = False
        """A node ended without its ranks' status, before any other failed."""
        self._deadline: float | None = None
        self._forced = False
        """Slurm was told to end the job."""
        self._asked = 0
        """The signal by which the end was asked for before anything ran."""
        self._sending = threading.Lock()

    def run(self) -> int:
        """Returns the exit status: 0 where the ranks of every node ended with 0."""
        self._signals.install()
        try:
            child = start(Process(argv=tuple(self._args.argv)), self._env, talks=True)
        except PrimusError as error:
            self._errors.append((0, faults.not_installed(self._args.argv[0], error)))
            return self._leave(1)
        try:
            threading.Thread(target=self._beat, args=(child,), daemon=True).start()
            self._send(child, **self._request())
            for said in lines_of(child):
                if said:
                    self._take(child, *said)
                else:
                    self._tick(child)
            status = child.wait()
        finally:
            kill(descendants(os.getpid()))
        return self._leave(status)

    def _request(self) -> dict[str, Any]:
        plan = os.path.join(os.path.dirname(self._args.submission), "plan.json") if self._args.submission else ""
        named = set(filter(None, self._args.inherit.split(",")))
        env = {key: text for key, text in self._env.items() if key in named or key.startswith(_ALWAYS_SENT)}
        return {
            "nodes": self._args.nodes,
            "env": env,
            "plan": plan,
            "digest": digest(plan) if plan else None,
            "workdir": self._args.workdir,
            "port": self._args.master_port,
            "lost_seconds": self._lost_seconds,
            "keep_job": "SLURM_JOB_ID" in self._env,
        }

    def _beat(self, child: Child) -> None:
        spoken = 0.0
        while child.returncode is None:
            time.sleep(_BEAT_TICK)
            if time.monotonic() - spoken > self._lost_seconds / BEATS - _BEAT_TICK:
                spoken = time.monotonic()
                self._send(child, do="alive")

    def _send(self, child: Child, **message: object) -> None:
        with self._sending, suppress(OSError, ValueError):  # srun may be gone
            if child.stdin:
                child.stdin.write(line(message))
                child.stdin.flush()

    def _take(self, child: Child, stream: str, text: bytes) -> None:
        if stream == "err":
            self._hear_slurm(child, text)
            return
        for one in self._joiner.feed(text):
            if isinstance(one, Line):
                self._take_line(child, one)
            else:
                self._hear_slurm(child, one)

    def _take_line(self, child: Child, said: Line) -> None:
        noise, event = sort_out(said.text)
        node = self._nodes[said.node] if said.node < len(self._nodes) else NodeState()
        if noise.strip():
            self._write(f"{node.host}: ".encode() + noise.rstrip(b"\r") + b"\n")
        if event is None:
            return
        if event.get("kind") == KIND:
            self._hear(child, said.node, node, event)
        else:
            self._write(encode(event))

    def _hear_slurm(self, child: Child, text: bytes) -> None:
        """A line of ``srun`` or of Slurm's daemon on a node."""
        words = text.decode("utf-8", "replace").rstrip()
        self._said.append(words)
        if self._phase == "ended" and self._deadline is None and faults.tells_of_loss(words):
            self._lost = True
            self._end_the_others(child)
        if (notice := faults.notice(words)) and not self._asked:
            self._notice(notice)
        self._write(text.rstrip(b"\r") + b"\n")

    def _hear(self, child: Child, number: int, node: NodeState, event: Mapping[str, Any]) -> None:
        node.state, node.host = event["state"], event["host"]
        if node.state == "ready" and "port" in event:
            self._known[number] = event
        elif node.state == "refused":
            kind = _ERRORS.get(ExitCode(event["exit_code"]), RunError)
            for told in event["problems"]:
                self._errors.append(
                    (number, kind(told["what"], where=told["where"], why=told["why"], remedy=told["remedy"]))
                )
            if not self._args.apart:
                self._deadline = self._deadline or time.monotonic() + _OTHERS_SECONDS
        elif node.state == "ended":
            node.status = event["status"]
            if node.status:
                self._failed = self._failed or node.status
                self._end_the_others(child)

    def _tick(self, child: Child) -> None:
        if self._phase == "ready" and self._enough():
            self._notice(f"job {self._meeting['job']} runs on {self._meeting['hosts']}")
            if self._args.apart and self._events:
                self._write(encode({"kind": "nodes", "hosts": list(expand(self._meeting["hosts"]))}))
            self._go_on(child, *(("ended", "start") if self._args.apart else ("met", "meet")))
        elif self._phase == "met" and self._all("met"):
            self._go_on(child, "ended", "start")
        for number in self._signals.take():
            self._pass_on(child, number)
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._insist(child)

    def _all(self, state: str) -> bool:
        return all(node.state == state for node in self._nodes)

    def _enough(self) -> bool:
        """Whether those that are ready go on: all are; apart, the others have refused or were waited for."""
        if not self._args.apart:
            return self._all("ready")
        began = self._began = self._began or (time.monotonic() if self._known else None)
        late = began is not None and time.monotonic() > began + _APART_SECONDS
        return bool(self._known) and (late or all(node.state != "silent" for node in self._nodes))

    @property
    def _meeting(self) -> Mapping[str, Any]:
        """What the first node that can says of the place where all meet."""
        return self._known[min(self._known)]

    def _go_on(self, child: Child, phase: str, order: str) -> None:
        self._phase = phase
        address = self._args.master_addr or self._meeting["address"]
        self._send(child, do=order, address=address, port=self._meeting["port"])

    def _pass_on(self, child: Child, number: int) -> None:
        if number == signal.SIGINT:  # the next Ctrl-C kills us and srun
            self._lost_seconds = min(self._lost_seconds, INTERRUPTED_LOST_SECONDS)
        if self._phase == "ended":
            self._send(child, do="signal", number=number, lost_seconds=self._lost_seconds)
            if self._args.apart and number in _ENDING:  # some nodes may not hear it
                self._deadline = self._deadline or time.monotonic() + END_SECONDS
        elif number in _ENDING:
            self._asked = self._asked or number
            self._insist(child)  # nothing runs yet

    def _end_the_others(self, child: Child) -> None:
        """Ranks that wait for each other do so in vain when some have ended."""
        if not self._args.apart:
            self._end_all(child)

    def _end_all(self, child: Child) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + END_SECONDS
            self._send(child, do="end", grace=GRACE_SECONDS)

    def _insist(self, child: Child) -> None:
        """Have Slurm end what is left: by a signal that ``srun`` takes as the wish to end the job, then by force."""
        if self._phase != "ended":
            self._send(child, do="end", grace=0)
        if self._deadline is None or not self._forced:
            self._forced = True
            self._deadline = time.monotonic() + _KILL_SECONDS
            signal_group(child, signal.SIGTERM)
        else:
            kill(descendants(os.getpid()))

    def _notice(self, text: str) -> None:
        if self._events:
            self._write(encode({"kind": "notice", "topic": "slurm", "text": text}))
        else:
            self._write(f"slurm: {text}\n".encode())

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # nobody reads any more
            while data:
                data = data[os.write(1, data) :]

    def _leave(self, status: int) -> int:
        """Say what went wrong beside the ranks; returns the exit status."""
        statuses = [node.status for node in self._nodes]
        unexplained = not self._asked and not self._failed and None in statuses
        if not self._errors and (self._lost or unexplained):
            self._errors += [(0, error) for error in self._why(status)]
        elif not self._errors and self._failed and (limit := faults.limit_reached(self._said)):
            self._errors.append((0, limit))
        if self._errors:
            errors = [error for _, error in sorted(self._errors, key=lambda one: one[0])]
            self._tell(errors)
            return int(errors[0].exit_code)
        if self._asked:
            return 128 + self._asked
        return self._failed or (ExitCode.RUNTIME if None in statuses else ExitCode.OK)

    def _why(self, status: int) -> Sequence[PrimusError]:
        silent = [node.host or f"node {number}" for number, node in enumerate(self._nodes) if node.status is None]
        if self._phase == "ended":
            return [faults.lost(silent, status, self._said)]
        return [faults.unstarted(status, self._said)]

    def _tell(self, errors: Sequence[PrimusError]) -> None:
        if self._events:
            self._write(problems_event(errors))
        else:
            sys.stderr.write("".join(f"{text}\n" for text in problem_lines(errors)))
            sys.stderr.flush()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="primus_launchers.slurm.step", allow_abbrev=False)
    parser.add_argument("--nodes", type=int, default=1, help="how many nodes there are")
    parser.add_argument("--apart", action="store_true", help="no node waits for another, or ends with it")
    parser.add_argument("--inherit", default="", help="names of variables that the nodes get, separated by commas")
    parser.add_argument("--workdir", default="", help="folder that every node has to see")
    parser.add_argument("--submission", default="", help="folder of the launcher's files, in the run directory")
    parser.add_argument("--lost-seconds", type=float, default=LOST_SECONDS)
    parser.add_argument("--master-addr", default="")
    parser.add_argument("--master-port", type=int, default=0)
    return parse_before(parser, argv)


def main() -> int:
    """The program; returns its exit status."""
    linux.adopt_orphans()
    return int(Step(parse(sys.argv[1:]), os.environ).run())


if __name__ == "__main__":
    os._exit(main())  # a thread may wait for srun
