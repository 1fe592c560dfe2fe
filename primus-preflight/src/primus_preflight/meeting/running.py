"""Has nodes run the performance tests, round by round, and finds whose fault it is where one fails."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from primus_preflight.meeting.book import Book, Nodes
from primus_preflight.meeting.grouprun import GroupRun
from primus_preflight.meeting.losses import Losses
from primus_preflight.meeting.slow import TRIES, Slow, bar_of, good_nodes, slow_groups
from primus_preflight.model import Measurement
from primus_preflight.performance.options import Options
from primus_preflight.performance.schedule import (
    Group,
    Round,
    group_rounds,
    sampled_rounds,
    transfer_rounds,
    turns,
    with_partners,
)
from primus_preflight.performance.splitting import Split, split
from primus_preflight.performance.tokens import OWN_SIZE, Trial

_PARTNERS = 3
"""So many others each node is paired with where a group may have slow nodes: most who are well meet one who is, too."""
_LEAST_SECONDS = 1.0
"""Limit of the last round before the meeting's time is over."""


class Running:
    """All performance tests of a meeting.

    Args:
        nodes: that can be asked.
        book: takes the measurements.
        losses: are told after each round.
    """

    def __init__(self, nodes: Nodes, options: Options, book: Book, losses: Losses) -> None:
        self._nodes = nodes
        self._options = options
        self._book = book
        self._losses = losses
        self._ports: dict[int, list[int]] = {}
        """Of each worker of each node, where a group that it leads meets; 0 for one that starts."""
        self._excluded: set[int] = set()
        """Nodes that were named in the present test: it goes on without them."""
        self._slow: list[Slow] = []
        self._round = 0
        self._end = time.monotonic() + options.meeting_seconds

    def run(self, tests: Sequence[Trial]) -> None:
        self._start(self._nodes.present)
        for test in tests:
            self._excluded = set()
            for size in self._options.sizes[-1:] if test.work in OWN_SIZE else self._options.sizes:
                self._run(test, size)
            if self._seconds == 0:
                self._tell_unfinished(test)
        for _ in range(TRIES):
            self._slow = [self._again(one) for one in self._slow]

    @property
    def _seconds(self) -> float:
        """Limit of the next round; 0 where the meeting's time is over, and no more is measured."""
        return min(self._options.seconds, max(0.0, self._end - time.monotonic()))

    def _tell_unfinished(self, test: Trial) -> None:
        """Of a test that was cut nobody knows whether its nodes would have passed."""
        error = f"the meeting's time of {self._options.meeting_seconds:.0f} s was over before this test had ended"
        able = self._able(1) if test.scope != "node" else self._able(2)
        self._book.add(*(Measurement(test=test.name, nodes=(node,), status="error", error=error) for node in able))

    def _run(self, test: Trial, size: int) -> None:
        able = self._able(2 if test.scope == "node" else 1)
        machines = {node: str(hello.get("machine", "")) for node, hello in self._nodes.hellos.items()}
        if test.scope in ("device", "node"):
            self._alone(test, size, turns(able, machines))
        elif len(able) > 1 and test.scope == "nodes":
            for groups in group_rounds(able, self._options.group_sizes):
                self._together(test, size, groups)
        elif len(able) > 1:
            self._in_pairs(test, size, transfer_rounds(able))

    def _able(self, workers: int) -> list[int]:
        """Nodes with so many workers, that were not named before."""
        usable = set(self._nodes.present) - self._excluded
        return [node for node in sorted(usable) if len(self._ports.get(node, ())) >= workers]

    def _start(self, nodes: Iterable[int]) -> None:
        """Wait until workers are ready; name the nodes where they are not."""
        seconds = self._options.join_seconds
        answers = self._nodes.ask({node: {"do": "start", "seconds": seconds} for node in nodes}, seconds)
        for node, answer in answers.items():
            workers = answer.message["workers"]
            self._ports[node] = [worker["port"] for worker in workers]
            if broken := [worker for worker in workers if worker["error"]]:
                del self._ports[node]
                self._book.add(*(_broken(node, worker["device"], worker["error"]) for worker in broken))

    def _alone(self, test: Trial, size: int, rounds: Sequence[Round]) -> None:
        runs = [run for groups in rounds for run in self._turn(test, size, groups)]
        bar = bar_of(runs)
        self._slow.append(Slow(test=test, size=size, bar=bar, rounds=rounds).only(slow_groups(runs, bar)))

    def _again(self, slow: Slow) -> Slow:
        """Try once more what is slow, as long as there is time for whole rounds; returns what is slow still."""
        book = self._turn if slow.test.scope in ("device", "node") else self._transfers
        rounds = (groups for groups in slow.rounds if self._seconds == self._options.seconds)
        runs = [run for groups in rounds for run in book(slow.test, slow.size, groups)]
        return slow.only(slow_groups(runs, slow.bar))

    def _turn(self, test: Trial, size: int, groups: Round) -> list[GroupRun]:
        runs = self._perform(test, size, groups)
        for run in runs:
            self._book.add(*(run.of_devices() if test.scope == "device" else [run.measurement()]))
        return runs

    def _together(self, test: Trial, size: int, groups: Round) -> None:
        """Groups at the same time; one that fails is tried again without the nodes for which it failed."""
        for run in self._perform(test, size, groups):
            if run.status == "ok":
                self._book.add(run.measurement())
                self._look_for_slow(run)
            else:
                self._without_culprits(run)

    def _without_culprits(self, run: GroupRun) -> None:
        while run.status != "ok":
            named = self._named(run)
            rest = tuple(node for node in run.group if node not in named and node not in run.lost)
            if rest == run.group or len(rest) < 2:
                if rest == run.group:
                    self._book.add(run.measurement())
                return
            runs = self._perform(run.test, run.size, (rest,))
            if not runs:
                return
            run = runs[0]
        self._book.add(run.measurement())

    def _named(self, run: GroupRun) -> set[int]:
        """Book those whose fault it is, and leave them out of the rest of this test."""
        named = set(run.culprits)
        self._book.add(*(run.of_node(node) for node in sorted(named)))
        if not named and not run.lost and len(run.group) > 2:
            result, runs = self._split(run)
            named = set(result.bad)
            for node in sorted(named):
                self._book.add(next(one for one in runs if node in one.group and one.status != "ok").of_node(node))
            self._book.add(*(one.measurement() for one in runs if one.group in result.unresolved))
        self._excluded |= named
        return named

    def _look_for_slow(self, run: GroupRun) -> None:
        """A figure for all says nothing of those that slow them: pairs do. For sums alone, of the largest size."""
        last = run.size // self._options.sizes[-1] and run.group == tuple(self._able(1))
        if run.test.work == "all_reduce" and last and len(run.group) > 2:
            self._in_pairs(run.test, run.size, sampled_rounds(run.group, _PARTNERS))

    def _split(self, run: GroupRun) -> tuple[Split, list[GroupRun]]:
        runs: list[GroupRun] = []

        def tried(groups: Round) -> Mapping[Group, float]:
            found = [one for one in self._perform(run.test, run.size, groups) if not one.lost]
            runs.extend(found)
            return {one.group: one.figure for one in found}

        return split(run.group, tried), runs

    def _in_pairs(self, test: Trial, size: int, rounds: Sequence[Round]) -> None:
        """Then who is in no good pair has a try with others that are in one, of transfers in both directions. What is
        slow between two that are in good pairs is their link, unless it is good later."""
        runs = [run for groups in rounds for run in self._transfers(test, size, groups)]
        bar = bar_of(runs)
        good = good_nodes(runs, bar)
        for groups in with_partners(sorted({node for run in runs for node in run.group} - good), good):
            good |= good_nodes(self._transfers(test, size, groups), bar)
            if test.scope == "pair":
                self._transfers(test, size, tuple((second, first) for first, second in groups))
        links = [group for group in slow_groups(runs, bar) if good.issuperset(group)]
        self._slow.append(Slow(test=test, size=size, bar=bar, rounds=rounds).only(links))

    def _transfers(self, test: Trial, size: int, groups: Round) -> list[GroupRun]:
        """One that failed because a node was lost is no measurement of the other."""
        runs = [run for run in self._perform(test, size, groups) if not run.lost]
        self._book.add(*(run.measurement() for run in runs))
        return runs

    def _perform(self, test: Trial, size: int, groups: Round) -> list[GroupRun]:
        """Run a test in groups at the same time. Groups with a node that is lost by now are left out."""
        self._round += 1
        present = set(self._nodes.present)
        groups = tuple(group for group in groups if present.issuperset(group) and self._seconds)
        self._renew(node for group in groups for node in group)
        groups = tuple(group for group in groups if self._ports.keys() >= set(group))
        if not groups:
            return []
        seconds = max(_LEAST_SECONDS, self._seconds)
        questions = {
            node: question
            for number, group in enumerate(groups)
            for node, question in self._questions(test, size, group, number, seconds).items()
        }
        answers = self._nodes.ask(questions, seconds)
        self._losses.tell()
        for node, answer in answers.items():
            self._ports[node] = _renewed(self._ports[node], [rank["port"] for rank in answer.message["ranks"]])
        return [
            GroupRun(
                test=test,
                group=group,
                size=0 if test.work in OWN_SIZE else size,
                round=self._round,
                dtype=self._options.dtype if test.scope == "device" else "fp32",
                ranks={node: answers[node].message["ranks"] for node in group if node in answers},
            )
            for group in groups
        ]

    def _renew(self, nodes: Iterable[int]) -> None:
        """Wait for workers that were started again."""
        if starting := [node for node in nodes if 0 in self._ports.get(node, ())]:
            self._start(starting)

    def _questions(
        self, test: Trial, size: int, group: Group, number: int, seconds: float
    ) -> dict[int, dict[str, object]]:
        """What each node's workers are asked; ranks are counted in the order of the group."""
        counts = [self._workers(test, node) for node in group]
        common = {
            "work": test.work,
            "size": size,
            "warmup": self._options.warmup,
            "iterations": self._options.iterations,
            "seconds": seconds,
            "gemm_size": self._options.gemm_size,
            "dtype": self._options.dtype,
            "memory_bytes": self._options.memory_bytes,
            "name": f"{self._round}-{number}",
            "world": sum(counts),
            "store": [self._nodes.hellos[group[0]]["address"], self._ports[group[0]][0]],
        }
        return {
            node: {
                "do": "run",
                "seconds": seconds,
                "requests": [{**common, "rank": sum(counts[:place]) + local} for local in range(counts[place])],
            }
            for place, node in enumerate(group)
        }

    def _workers(self, test: Trial, node: int) -> int:
        """How many take part. A node without accelerators is one device, however many workers it has."""
        if test.scope == "pair":
            return 1
        devices = max(1, int(self._nodes.hellos[node].get("devices", 0)))
        return min(devices, len(self._ports[node])) if test.scope == "device" else len(self._ports[node])


def _renewed(ports: Sequence[int], told: Sequence[int]) -> list[int]:
    """Workers that took part tell theirs, which changes when they were started again."""
    return [*told, *ports[len(told) :]]


def _broken(node: int, device: int | None, error: str) -> Measurement:
    return Measurement(test="workers", nodes=(node,), device=device, status="error", error=error)
