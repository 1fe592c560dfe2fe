"""Where the coordinator hears the agents of all nodes: each is asked, and answers in time or is left out."""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import time
from collections import Counter
from collections.abc import Mapping

from primus_core.records import frozen
from primus_preflight.meeting.hello import HELLO_BYTES, HELLO_SECONDS, is_hello
from primus_preflight.meeting.wire import BEAT_SECONDS, LONGEST, LOST_SECONDS, GoneError, Message, Wire

_POLL_SECONDS = 0.2
LATE_SECONDS = 5.0
"""How much longer than its limit an agent that gives signs of life may take to say what became of a test."""


_MOST_STRANGERS = 64
"""So many more than there are nodes may be connected without having said who they are; then the first of them go."""


@frozen(kw_only=True)
class Answer:
    """What an agent says to a question."""

    message: Message
    asked: float
    """When the question went, in seconds since the epoch by the clock of this host."""
    arrived: float


class Room:
    """The coordinator's end of all connections.

    Args:
        listener: is owned from now on.
        run_id: agents of other runs are turned away.
        silence: seconds without a sign of life after which an agent is lost.
        late: seconds; see `LATE_SECONDS`.
    """

    def __init__(
        self, listener: socket.socket, run_id: str, *, silence: float = LOST_SECONDS, late: float = LATE_SECONDS
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._run_id = run_id
        self._silence, self._late = silence, late
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._expected = 0
        self._strangers: dict[Wire, float] = {}
        """When each of them came, the first one first."""
        self._wires: dict[int, Wire] = {}
        self._nodes: dict[Wire, int] = {}
        self._answers: dict[int, tuple[Message, float]] = {}
        self._question = 0
        self._beaten = 0.0
        self.hellos: dict[int, Message] = {}
        """What each node said of itself when it came, with its ``address``."""
        self.lost: dict[int, str] = {}
        """How those were lost that had come."""

    @property
    def present(self) -> tuple[int, ...]:
        return tuple(sorted(self._wires))

    def gather(self, expected: int, seconds: float) -> None:
        """Wait until so many nodes have come, or until the time is over; later ones are turned away."""
        self._expected = expected
        deadline = time.monotonic() + seconds
        while len(self._wires) < expected and time.monotonic() < deadline:
            self._turn(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        self._selector.unregister(self._listener)
        self._listener.close()
        self._tell_own_address()
        for wire in list(self._strangers):
            self._drop(wire)

    def _tell_own_address(self) -> None:
        """Who has come from this host has come from its loopback, which leads nowhere on another host: there this host
        has the address by which most nodes have reached it."""
        reached = Counter(wire.own for wire in self._nodes if not _is_loopback(wire.own))
        for node, hello in list(self.hellos.items()):
            if reached and _is_loopback(hello["address"]):
                self.hellos[node] = {**hello, "address": max(reached, key=reached.__getitem__)}

    def ask(self, questions: Mapping[int, Message], seconds: float) -> dict[int, Answer]:
        """Ask nodes at the same time.

        Args:
            questions: for each node that is asked.
            seconds: limit for what is asked; agents get `LATE_SECONDS` more to say that it was not kept.

        Returns:
            The answers of those that gave one. The others are in `lost` and are asked no more.
        """
        self._question += 1
        self._answers = {}
        asked: dict[int, float] = {}
        for node, message in questions.items():
            asked[node] = time.time()
            self._send(node, {**message, "id": self._question})
        deadline = time.monotonic() + seconds + self._late
        while self._awaited(questions) and time.monotonic() < deadline:
            self._turn(_POLL_SECONDS)
        for node in self._awaited(questions):
            self._lose(node, f"no answer within {seconds:g} s, though it gave signs of life")
        return {
            node: Answer(message=message, asked=asked[node], arrived=arrived)
            for node, (message, arrived) in sorted(self._answers.items())
        }

    def close(self, message: Message) -> None:
        """Say a last thing to all, and wait until each has heard it and gone."""
        for node in self.present:
            self._send(node, message)
        lost = dict(self.lost)
        deadline = time.monotonic() + self._late
        while self._wires and time.monotonic() < deadline:
            self._turn(_POLL_SECONDS)
        self.lost = lost
        for wire in list(self._nodes):
            self._drop(wire)
        self._wires.clear()
        self._selector.close()

    def _awaited(self, questions: Mapping[int, Message]) -> list[int]:
        return [node for node in questions if node in self._wires and node not in self._answers]

    def _turn(self, seconds: float) -> None:
        """Take what has arrived, and look who is silent."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._hear(key.data)
        now = time.monotonic()
        if now - self._beaten > min(BEAT_SECONDS, self._silence / 4):
            self._beaten = now
            self._look_around(now)

    def _look_around(self, now: float) -> None:
        for wire, came in list(self._strangers.items()):
            if now - came > HELLO_SECONDS:
                self._drop(wire)
        for node, wire in list(self._wires.items()):
            if now - wire.heard > self._silence:
                self._lose(node, f"nothing was heard of it for {self._silence:g} s")
            else:
                self._send(node, {})

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            wire = Wire(connection, HELLO_BYTES)
            self._strangers[wire] = time.monotonic()
            self._selector.register(wire, selectors.EVENT_READ, wire)
            if len(self._strangers) > self._expected + _MOST_STRANGERS:
                self._drop(next(iter(self._strangers)))

    def _hear(self, wire: Wire) -> None:
        try:
            messages = wire.receive()
        except GoneError as gone:
            if wire in self._nodes:
                self._lose(self._nodes[wire], str(gone))
            else:
                self._drop(wire)
            return
        for message in messages:
            if wire in self._nodes:
                self._take(self._nodes[wire], message)
            elif wire in self._strangers:
                self._meet(wire, message)

    def _meet(self, wire: Wire, hello: Message) -> None:
        """Welcome somebody who belongs here; one that comes again is not lost any more."""
        if not is_hello(hello, self._run_id, self._expected) or hello["node"] in self._wires:
            self._drop(wire)
            return
        node = hello["node"]
        del self._strangers[wire]
        wire.longest = LONGEST
        self._wires[node], self._nodes[wire] = wire, node
        self.hellos[node] = {**hello, "address": wire.peer}
        self.lost.pop(node, None)
        self._send(node, {"do": "welcome"})

    def _take(self, node: int, message: Message) -> None:
        """Answers to earlier questions came too late, and are nothing now."""
        if message.get("id") == self._question:
            self._answers[node] = (message, time.time())

    def _send(self, node: int, message: Message) -> None:
        if wire := self._wires.get(node):
            try:
                wire.send(message)
            except GoneError as gone:
                self._lose(node, str(gone))

    def _lose(self, node: int, how: str) -> None:
        self.lost[node] = how
        self._drop(self._wires.pop(node))

    def _drop(self, wire: Wire) -> None:
        self._strangers.pop(wire, None)
        self._nodes.pop(wire, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(wire)
        wire.close()


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback
