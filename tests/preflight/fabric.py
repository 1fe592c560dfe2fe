"""A cluster that is computed: nodes answer a coordinator as agents would, by the speeds of their links."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from primus_preflight.meeting.room import Answer
from primus_preflight.performance.values import bus_bytes

SPEED = 50e9
"""Bytes a second of a link that works."""
_FLOPS = 400e12


class Fabric:
    """As much of a room of nodes as a coordinator sees.

    Args:
        slow: share of the speed that a node's links have.
        slow_links: the same of one direction between two nodes.
        wrong: nodes that get wrong values.
        poison: nodes that give wrong values, so that all others get them.
        stuck: nodes whose workers never come to a group.
        dies: nodes that are lost in the round of this number.
        busy: nodes that take twice as long for everything until the round of this number is over.
    """

    def __init__(
        self,
        nodes: int,
        *,
        slow: Mapping[int, float] | None = None,
        slow_links: Mapping[tuple[int, int], float] | None = None,
        wrong: set[int] | None = None,
        poison: set[int] | None = None,
        stuck: set[int] | None = None,
        dies: Mapping[int, int] | None = None,
        busy: Mapping[int, int] | None = None,
    ) -> None:
        self.hellos: dict[int, Mapping[str, Any]] = {
            node: {"address": f"10.0.0.{node}", "door": 1, "machine": str(node), "devices": 1} for node in range(nodes)
        }
        self.lost: dict[int, str] = {}
        self.rounds = 0
        self._slow, self._slow_links = slow or {}, slow_links or {}
        self._wrong, self._poison, self._stuck = wrong or set(), poison or set(), stuck or set()
        self._dies, self._busy = dies or {}, busy or {}

    @property
    def present(self) -> tuple[int, ...]:
        return tuple(node for node in self.hellos if node not in self.lost)

    def ask(self, questions: Mapping[int, Mapping[str, Any]], seconds: float) -> dict[int, Answer]:
        if any(question["do"] == "run" for question in questions.values()):
            self.rounds += 1
            self.lost.update({node: "it died" for node, when in self._dies.items() if when == self.rounds})
        groups: dict[str, list[int]] = {}
        for node, question in questions.items():
            if question["do"] == "run":
                groups.setdefault(question["requests"][0]["name"], []).append(node)
        said = {
            node: self._said(node, question, groups) for node, question in questions.items() if node not in self.lost
        }
        now = time.time()
        return {node: Answer(message=message, asked=now, arrived=now) for node, message in said.items()}

    def _said(self, node: int, question: Mapping[str, Any], groups: Mapping[str, list[int]]) -> Mapping[str, Any]:
        match question["do"]:
            case "clock":
                return {"time": time.time()}
            case "reach":
                return {"reached": [[other, 1e-4, ""] for other, _, _ in question["targets"]]}
            case "start":
                return {"workers": [{"device": 0, "port": 1, "error": ""}]}
            case _:
                (request,) = question["requests"]
                return {"ranks": [{"device": 0, "port": 1, **self._result(node, request, groups[request["name"]])}]}

    def _result(self, node: int, request: Mapping[str, Any], group: list[int]) -> Mapping[str, Any]:
        if not self._stuck.isdisjoint(group) or not set(self.lost).isdisjoint(group):
            stage = "prepare" if node in self._stuck and len(group) == 1 else "join"
            return {"status": "timeout", "stage": stage, "error": "timed out"}
        alone = len(group) == 1
        amount = 1e12 if alone else bus_bytes(request["work"], request["size"], len(group))
        speed = _FLOPS if alone else SPEED * self._share(group, request)
        bad = node in self._wrong or (not alone and not self._poison.isdisjoint(group))
        busy = any(self.rounds <= self._busy.get(member, 0) for member in group)
        times = [amount / speed * (1 + busy)] * request["iterations"]
        return {"status": "ok", "seconds": times, "amount": amount, "wrong": "1 instead of 2" if bad else ""}

    def _share(self, group: list[int], request: Mapping[str, Any]) -> float:
        links = self._slow_links.items() if request["work"] == "transfer" else ()
        slow = [share for (first, second), share in links if [first, second] == self._ordered(group, request)]
        return min([1.0, *slow, *(self._slow.get(node, 1.0) for node in group)])

    @staticmethod
    def _ordered(group: list[int], request: Mapping[str, Any]) -> list[int]:
        """Sender first: the store of a group is at its first rank."""
        first = int(str(request["store"][0]).rpartition(".")[2])
        return sorted(group, key=lambda node: node != first)
