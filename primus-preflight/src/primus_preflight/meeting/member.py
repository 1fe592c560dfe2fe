"""An agent in the meeting: it does what the coordinator asks, and never lets a worker keep it."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any

from primus_preflight.meeting.crew import Worker
from primus_preflight.meeting.reaching import reach
from primus_preflight.meeting.wire import BEAT_SECONDS, LOST_SECONDS, GoneError, Message, Wire

_POLL_SECONDS = 0.1


class Member:
    """The agent's end of the connection to the coordinator.

    Args:
        wire: to the coordinator.
        door: where other nodes try to reach this one.
        workers: those of this node.
        record: what it has seen, as JSON.
    """

    def __init__(self, wire: Wire, door: socket.socket, workers: Sequence[Worker], record: str) -> None:
        self._wire = wire
        self._door = door
        self._workers = workers
        self._record = record
        self._asked: Message = {}
        """The question about workers that is not answered yet; empty where there is none."""
        self._deadline = 0.0
        self._beaten = 0.0
        self._ended: Message = {}

    def serve(self, said: Sequence[Message]) -> Message:
        """Answer until the coordinator ends the meeting; returns what it says last.

        Args:
            said: what has arrived already.

        Raises:
            GoneError: the coordinator was lost; says how.
        """
        self._door.setblocking(False)
        for message in said:
            self._do(message)
        while not self._ended:
            for ready in self._select():
                if isinstance(ready, Worker):
                    ready.hear()
                elif ready is self._wire:
                    for message in self._wire.receive():
                        self._do(message)
                else:
                    self._door.accept()[0].close()
            if not self._ended:
                self._settle()
                self._beat()
        return self._ended

    def _select(self) -> list[Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wire, selectors.EVENT_READ)
            selector.register(self._door, selectors.EVENT_READ)
            for worker in self._workers:
                if not worker.broken:
                    selector.register(worker, selectors.EVENT_READ)
            return [key.fileobj for key, _ in selector.select(_POLL_SECONDS)]

    def _do(self, message: Message) -> None:
        match message.get("do"):
            case "clock":
                self._answer(message, time=time.time())
            case "record":
                self._answer(message, record=self._record)
            case "reach":
                self._answer(message, reached=reach(message["targets"], message["seconds"]))
            case "start" | "run":
                self._begin(message)
            case "end":
                self._ended = message

    def _begin(self, message: Message) -> None:
        self._asked = message
        self._deadline = time.monotonic() + message["seconds"]
        for worker, request in zip(self._workers, message.get("requests", ()), strict=False):
            worker.give({**request, "id": message["id"]})

    def _settle(self) -> None:
        """Answer what was asked about workers, when all have answered or time is over."""
        if not self._asked:
            return
        late = time.monotonic() > self._deadline
        if self._asked["do"] == "start":
            if late or all(worker.settled for worker in self._workers):
                self._answer(self._asked, workers=[self._state(worker) for worker in self._workers])
                self._asked = {}
            return
        taking_part = self._workers[: len(self._asked["requests"])]
        if late or all(worker.result for worker in taking_part):
            self._answer(self._asked, ranks=[self._result(worker) for worker in taking_part])
            self._asked = {}

    def _state(self, worker: Worker) -> Message:
        late = "" if worker.settled else f"torch was not loaded within {self._asked['seconds']:g} s"
        return {"device": worker.device, "port": worker.port, "error": worker.broken or late}

    def _result(self, worker: Worker) -> Message:
        """What a worker says; one that hangs or has ended is started again, which costs the others nothing."""
        if worker.result is None:
            worker.give_up(self._asked["seconds"])
            worker.restart()
        elif worker.broken:
            worker.restart()
        return {"device": worker.device, **(worker.result or {}), "port": worker.port}

    def _answer(self, question: Message, **said: object) -> None:
        self._wire.send({"id": question["id"], **said})

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beaten > BEAT_SECONDS:
            self._beaten = now
            self._wire.send({})
        if now - self._wire.heard > LOST_SECONDS:
            raise GoneError(f"nothing was heard of it for {LOST_SECONDS:.0f} s")
