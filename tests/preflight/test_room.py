"""The coordinator hears real connections: who is silent, ends, or talks nonsense costs the others nothing."""

from __future__ import annotations

import contextlib
import json
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from primus_preflight.meeting import room as rooms
from primus_preflight.meeting.joining import join
from primus_preflight.meeting.room import Room
from primus_preflight.meeting.wire import GoneError

RUN = "run"


HELLO = {"run": RUN, "node": 0, "host": "h", "devices": 0, "machine": "m", "door": 1}


def hello(**changes: object) -> bytes:
    """What an agent says first."""
    return json.dumps({**HELLO, **changes}).encode() + b"\n"


def connected(port: int, said: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(30)
    connection.sendall(said)
    return connection


def ends(connection: socket.socket) -> bool:
    """Whether the other side closes the connection, after the rest of what it says."""
    with contextlib.suppress(ConnectionResetError):  # not all was read
        while connection.recv(1 << 16):
            pass
    connection.close()
    return True


@contextmanager
def room(silence: float = 30.0, late: float = 0.5) -> Iterator[tuple[Room, int]]:
    """A room and its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    made = Room(listener, RUN, silence=silence, late=late)
    yield made, listener.getsockname()[1]
    made.close({"do": "end"})


class Agents:
    """Agents in a thread of this process, which answer what they are asked.

    Args:
        mute: those that never answer, but are there.
        leave: those that end when they are asked.
    """

    def __init__(self, port: int, nodes: range, mute: frozenset[int] = frozenset(), leave: int = -1) -> None:
        self._mute, self._leave = mute, leave
        self._selector = selectors.DefaultSelector()
        for node in nodes:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(hello(node=node))
            self._selector.register(connection, selectors.EVENT_READ, node)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while self._selector.get_map():
            for key, _ in self._selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(1 << 16)
                if not data or not all(self._answered(key.fileobj, key.data, line) for line in data.splitlines()):
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()

    def _answered(self, connection: socket.socket, node: int, line: bytes) -> bool:
        message = json.loads(line)
        if ("id" in message and node == self._leave) or message.get("do") == "end":
            return False
        if "id" in message and node not in self._mute:
            connection.sendall(json.dumps({"id": message["id"], "node": node}).encode() + b"\n")
        return True


class Soon:
    """Agents that come when those before them have been heard."""

    def __init__(self, come: Callable[[], Agents]) -> None:
        self._agents: list[Agents] = []
        self._timer = threading.Timer(0.2, lambda: self._agents.append(come()))
        self._timer.start()

    def agents(self) -> Agents:
        self._timer.join()
        return self._agents[0]


def test_a_thousand_agents_answer() -> None:
    """All are asked at the same time, and each answer is that of its node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(1000, (most - 200) // 2)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with room() as (made, port):
            agents = Agents(port, range(count))
            made.gather(count, 30)
            answers = made.ask({node: {"do": "test"} for node in range(count)}, 30)
        agents.join()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert {node: answer.message["node"] for node, answer in answers.items()} == {node: node for node in range(count)}
    assert made.lost == {}


def test_one_that_does_not_come_is_not_waited_for_longer_than_asked() -> None:
    """The others are there, and the room goes on without it."""
    with room() as (made, port):
        agents = Agents(port, range(2))
        began = time.monotonic()
        made.gather(3, 0.5)
        assert time.monotonic() - began < 5
        assert made.present == (0, 1)
    agents.join()


def test_one_that_ends_is_lost_at_once() -> None:
    """Its connection ends: nobody waits for the limit, and the others' answers are there."""
    with room() as (made, port):
        agents = Agents(port, range(3), leave=1)
        made.gather(3, 30)
        began = time.monotonic()
        assert sorted(made.ask({key: {"do": "test"} for key in range(3)}, 60)) == [0, 2]
        assert time.monotonic() - began < 20
        assert made.lost == {1: "it closed the connection"}
        assert sorted(made.ask({key: {"do": "test"} for key in range(3)}, 60)) == [0, 2]
    agents.join()


@pytest.mark.parametrize(
    ("silence", "limit", "how"),
    [(0.4, 60.0, "nothing was heard of it for 0.4 s"), (30.0, 0.2, "no answer within 0.2 s, though it gave")],
)
def test_one_that_says_nothing_is_lost(silence: float, limit: float, how: str) -> None:
    """One that gives no sign of life is lost before the limit, one that gives some soon after it."""
    with room(silence=silence) as (made, port):
        agents = Agents(port, range(1), mute=frozenset({0}))
        made.gather(1, 30)
        assert made.ask({0: {"do": "test"}}, limit) == {}
        assert made.lost[0].startswith(how)
    agents.join()


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b'["node"]\n',
        b'{"run": "run"}\n',
        b"[" * 4000 + b"\n",
        b'{"run": "' + b"x" * 10_000,
        b"\xff\n",
        hello(run="other"),
        *(hello(node=node) for node in (-1, 1, True, 0.0, "0", None)),
        *(hello(door=door) for door in (0, 65536, "80", None)),
        hello(devices=-1),
        hello(machine=[]),
    ],
)
def test_strangers_are_turned_away(said: bytes) -> None:
    """Whoever speaks another language, belongs to another run or is none of its nodes; the nodes come all the same."""
    with room() as (made, port):
        stranger = connected(port, said)
        soon = Soon(lambda: Agents(port, range(1)))
        made.gather(1, 30)
        made.ask({0: {"do": "test"}}, 30)
        assert ends(stranger)
        assert made.present == (0,)
    soon.agents().join()


def test_strangers_that_say_nothing_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """After their time, while the nodes are waited for; and the first of them when there are too many."""
    monkeypatch.setattr(rooms, "HELLO_SECONDS", 2)
    monkeypatch.setattr(rooms, "_MOST_STRANGERS", 4)
    with room(silence=0.4) as (made, port):
        waiting = threading.Thread(target=made.gather, args=(1, 8))
        waiting.start()
        strangers = [connected(port) for _ in range(8)]
        began = time.monotonic()
        assert all(map(ends, strangers[:3]))
        assert time.monotonic() - began < 2
        assert all(map(ends, strangers[3:]))
        assert time.monotonic() - began < 10
        waiting.join()
    assert made.lost == {}


def test_a_node_that_comes_again_is_not_lost() -> None:
    """Its first connection broke while the others were waited for."""
    with room() as (made, port):
        first = connected(port, hello())

        def come_again() -> Agents:
            first.close()
            return Agents(port, range(2))

        soon = Soon(come_again)
        made.gather(2, 30)
        assert (made.present, made.lost) == ((0, 1), {})
        assert sorted(made.ask({0: {"do": "test"}, 1: {"do": "test"}}, 30)) == [0, 1]
    soon.agents().join()


def test_nobody_says_who_it_is_twice() -> None:
    """More of the same changes nothing for the node that was welcomed."""
    with room() as (made, port):
        node = connected(port, hello() * 3)
        made.gather(1, 30)
        made.ask({}, 0)
        assert (made.present, made.lost) == ((0,), {})
        node.close()


def test_the_way_to_nobody_says_why() -> None:
    """Where nobody waits, joining ends after its time with the reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(GoneError, match=f"127.0.0.1:{port} cannot be reached: Connection refused"):
        join("127.0.0.1", port, {"run": RUN, "node": 1}, 0.3)


def test_somebody_else_at_the_port_is_no_coordinator() -> None:
    """A program that takes connections and says nothing is not waited for longer than asked."""
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(GoneError, match="it does not answer"):
        join("127.0.0.1", other.getsockname()[1], {"run": RUN, "node": 1}, 0.3)
