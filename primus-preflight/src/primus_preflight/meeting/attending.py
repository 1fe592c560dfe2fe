"""What an agent does in a meeting: finds it, or holds it, and attends it to the end."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial

from attrs import evolve

from primus_core.codec import from_json, to_json
from primus_core.contract import RankContext
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.nodes.listening import listen
from primus_core.plan import RunPlan
from primus_preflight.agent.files import folder_of, write_measurements
from primus_preflight.agent.redaction import redacted_node, redactor_of
from primus_preflight.meeting.crew import Worker
from primus_preflight.meeting.holding import Holding
from primus_preflight.meeting.joining import join, own_machine
from primus_preflight.meeting.member import Member
from primus_preflight.meeting.wire import LOST_SECONDS, GoneError, Message, Wire
from primus_preflight.model import Measurement, MeasurementStatus, Node, Probe
from primus_preflight.performance.options import Options
from primus_preflight.performance.tokens import Trial

Joined = tuple[Wire, list[Message]]
_LOOPBACK = "127.0.0.1"
STAND_INS = 3
"""So many nodes after node 0 may hold the meeting in its place: where it does not come, and where it is lost."""
AGAIN_SECONDS = 2 * LOST_SECONDS
"""How long nodes wait for each other that have lost who held the meeting: all notice that in half of it."""


class Attending:
    """One node on its way to the meeting and in it.

    Args:
        workers: of this node.
    """

    def __init__(
        self,
        plan: RunPlan,
        rank: RankContext,
        node: Node,
        tests: Sequence[Trial],
        options: Options,
        workers: Sequence[Worker],
    ) -> None:
        self._plan = plan
        self._node = node
        self._nodes = rank.world_size
        self._env = rank.env
        self._redact = redactor_of(rank.env)
        self._first = rank.env.get("MASTER_ADDR", "") if self._nodes > 1 else _LOOPBACK
        self._tests = tests
        self._options = options
        self._workers = workers
        self._unreached: list[Measurement] = []

    def attend(self) -> Node:
        """The node with what it has to say of the meeting: how it went here, and whom it could not reach."""
        began = time.monotonic()
        facts: dict[str, Value] = {"machine": own_machine() or None}
        error = ""
        try:
            facts["coordinator"] = self._meet()
        except GoneError as gone:
            error = str(gone)
        probe = Probe(
            name="meeting",
            group="network",
            status="error" if error else "ok",
            seconds=round(time.monotonic() - began, 3),
            facts=facts,
            error=error,
        )
        return evolve(
            self._node,
            probes=(*self._node.probes, probe),
            measurements=(*self._node.measurements, *self._unreached),
        )

    def _meet(self) -> int:
        """Returns which node held the meeting.

        Raises:
            GoneError: there was none, or it broke off.
        """
        with ExitStack() as stack:
            door = stack.enter_context(self._listen(0))
            first, seconds = 0, self._options.join_seconds
            while True:
                host, (wire, said) = self._come(stack, self._hello(door), first, seconds)
                with closing(wire):
                    record = to_json(redacted_node(self._node, self._redact))
                    try:
                        Member(wire, door, self._workers, record).serve(said)
                    except GoneError as gone:
                        self._miss(host, f"lost in the middle: {gone}", "error")
                    else:
                        return host
                for worker in self._workers:  # they may wait for each other in a test that nobody asks for any more
                    worker.restart()
                first, seconds = host + 1, min(AGAIN_SECONDS, self._options.join_seconds)

    def _come(self, stack: ExitStack, hello: dict[str, object], first: int, seconds: float) -> tuple[int, Joined]:
        """Try a node, then the next ones; this node, when it is its turn, holds the meeting itself."""
        for host in range(first, min(STAND_INS + 1, self._nodes)):
            if host == self._node.node:
                return host, self._hold(stack, hello, seconds)
            if address := self._address(host):
                try:
                    return host, join(address, self._port, hello, seconds if host == first else seconds / 2)
                except GoneError as gone:
                    self._miss(host, str(gone), "timeout")
        raise GoneError("no coordinator can be reached: " + "; ".join(one.error for one in self._unreached))

    def _hold(self, stack: ExitStack, hello: dict[str, object], seconds: float) -> Joined:
        try:
            listener = self._listen(self._port)
        except OSError as error:
            raise GoneError(f"cannot wait for the other nodes at port {self._port}: {error.strerror}") from None
        port: int = listener.getsockname()[1]
        holding = Holding(
            listener,
            self._plan.run_id,
            folder=folder_of(self._plan),
            host=self._node.node,
            expected=self._nodes,
            seconds=seconds,
            tests=self._tests,
            options=self._options,
            write=partial(write_measurements, self._plan, self._redact, coordinator=self._node.node),
        )
        stack.callback(holding.end)
        return join(_LOOPBACK, port, hello, self._options.join_seconds)

    @property
    def _port(self) -> int:
        """Where the nodes meet; a node alone takes any.

        Raises:
            GoneError: nobody has told.
        """
        text = self._env.get("MASTER_PORT", "") if self._nodes > 1 else "0"
        if not (text.isdecimal() and int(text) < 1 << 16):
            raise GoneError(f"MASTER_PORT is {text!r}, and no port where the nodes could meet")
        return int(text)

    def _listen(self, port: int) -> socket.socket:
        """Where others come; a node alone has nobody to hear but itself."""
        return listen(port) if self._nodes > 1 else socket.create_server((_LOOPBACK, port))

    def _hello(self, door: socket.socket) -> dict[str, object]:
        return {
            "run": self._plan.run_id,
            "node": self._node.node,
            "host": self._node.host,
            "devices": self._node.devices,
            "machine": own_machine(),
            "door": door.getsockname()[1],
        }

    def _address(self, node: int) -> str:
        """Of another node: node 0's is known, others' are in what they have written where nodes share a folder."""
        if node == 0:
            return self._first
        try:
            text = (folder_of(self._plan) / f"node-{node}.json").read_text(encoding="utf-8")
            said = from_json(Node, text)
        except (OSError, ConfigError):
            return ""
        return next(iter(said.addresses), said.host)

    def _miss(self, host: int, how: str, status: MeasurementStatus) -> None:
        pair = (self._node.node, host)
        self._unreached.append(Measurement(test="meeting", nodes=pair, status=status, error=how))
