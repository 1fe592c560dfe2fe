"""The order of a meeting: clocks, who reaches whom, then the performance tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from primus_preflight.meeting.book import Book, Nodes
from primus_preflight.meeting.losses import Losses
from primus_preflight.meeting.running import Running
from primus_preflight.model import Measurement
from primus_preflight.performance.options import Options
from primus_preflight.performance.schedule import ALL_PAIRS_NODES, sampled_rounds
from primus_preflight.performance.tokens import Trial

REACH_SECONDS = 5.0
CLOCK_SECONDS = 5.0


def tell_absent(expected: int, nodes: Nodes, book: Book) -> None:
    """Name those that have not come."""
    absent = sorted(set(range(expected)) - set(nodes.present) - set(nodes.lost))
    error = "did not come to the meeting while the others waited for it"
    book.add(*(Measurement(test="meeting", nodes=(node,), status="timeout", error=error) for node in absent))


def compare_clocks(nodes: Nodes, host: int, book: Book) -> None:
    """How far each node's clock is ahead of the coordinator's, by half of the way there and back."""
    answers = nodes.ask({node: {"do": "clock"} for node in nodes.present}, CLOCK_SECONDS)
    for node, answer in answers.items():
        ahead = float(answer.message["time"]) - (answer.asked + answer.arrived) / 2
        book.add(Measurement(test="clock", nodes=(host, node), values=(round(ahead, 3),), unit="s"))


def try_to_reach(nodes: Nodes, book: Book) -> None:
    """Which node can connect to which: all pairs, or a sample of them where there are too many."""
    targets = _targets(nodes.present)
    doors = {node: (node, hello["address"], hello["door"]) for node, hello in nodes.hellos.items()}
    answers = nodes.ask(
        {
            node: {"do": "reach", "targets": [doors[other] for other in others], "seconds": REACH_SECONDS}
            for node, others in targets.items()
        },
        REACH_SECONDS,
    )
    book.add(*(_reached(node, *one) for node, answer in answers.items() for one in answer.message["reached"]))


def _targets(present: Sequence[int]) -> dict[int, list[int]]:
    if len(present) <= ALL_PAIRS_NODES:
        pairs = list(combinations(present, 2))
    else:
        pairs = [(first, second) for one in sampled_rounds(present) for first, second in one]
    found: dict[int, list[int]] = {}
    for first, second in pairs:
        found.setdefault(first, []).append(second)
        found.setdefault(second, []).append(first)
    return found


def _reached(node: int, other: int, seconds: float, error: str) -> Measurement:
    values = () if error else (round(seconds, 6),)
    return Measurement(
        test="reach", nodes=(node, other), values=values, unit="s", status="error" if error else "ok", error=error
    )


def coordinate(nodes: Nodes, host: int, expected: int, tests: Sequence[Trial], options: Options, book: Book) -> None:
    """Hold the meeting with those that have come.

    Args:
        host: the node on which this runs.
        expected: how many should have.
    """
    tell_absent(expected, nodes, book)
    if len(nodes.present) > 1:
        compare_clocks(nodes, host, book)
        try_to_reach(nodes, book)
    losses = Losses(nodes, book)
    if tests:
        Running(nodes, options, book, losses).run(tests)
    losses.tell()
    book.keep()
