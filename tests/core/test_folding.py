"""One line for what many ranks say at once."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from typing import Any

import pytest

from primus_core.log.console import record_line
from primus_core.submit.console import Console
from primus_core.submit.folding import SETTLE_SECONDS, Folding


class Clock:
    """Goes on when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folding(clock: Clock) -> Folding:
    return Folding(clock)


def said(rank: int, event: str, values: str = "", level: str = "error", host: str = "node1") -> Mapping[str, Any]:
    return {
        "kind": "record", "level": level, "source": "primus", "event": event, "values": values,
        "rank": rank, "host": host,
    }  # fmt: skip


def shown(folding: Folding) -> list[str]:
    return [record_line(event) for event in folding.due()]


def test_a_message_of_many_ranks_is_one_line(folding: Folding, clock: Clock) -> None:
    """It is that of the first, with the number of ranks; another message has its own line, in its order."""
    for rank in range(3, 514):
        folding.take(said(rank, "connection lost", f"after={rank}"))
        if rank == 100:
            folding.take(said(0, "connection lost", level="warning"))
    assert shown(folding) == []
    clock.now += SETTLE_SECONDS
    assert shown(folding) == [
        "error, rank 3: connection lost after=3 (x 511 ranks)",
        "warning, rank 0: connection lost",
    ]
    assert shown(folding) == []


def test_ranks_that_name_themselves_say_the_same(folding: Folding, clock: Clock) -> None:
    """A rank's own number and host do not tell messages apart, other numbers do."""
    for rank in (1, 2):
        folding.take(said(rank, f"rank {rank} on node{rank} failed", host=f"node{rank}"))
        folding.take(said(rank, f"exit code {rank}"))
    clock.now += SETTLE_SECONDS
    assert shown(folding) == [
        "error, rank 1: rank 1 on node1 failed (x 2 ranks)",
        "error, rank 1: exit code 1",
        "error, rank 2: exit code 2",
    ]


def test_repetition_is_counted(folding: Folding, clock: Clock) -> None:
    """What one rank says again and again, and what many do, is one line while it is held."""
    for _ in range(3):
        folding.take(said(0, "alone"))
        for rank in (1, 2):
            folding.take(said(rank, "together"))
    clock.now += SETTLE_SECONDS
    assert shown(folding) == ["error, rank 0: alone (x 3)", "error, rank 1: together (x 2 ranks, 6 times)"]


def test_nothing_waits_longer_than_it_takes_to_settle(folding: Folding, clock: Clock) -> None:
    """A message that goes on and on is shown half a second after its first, and the rest is told as more."""
    lines = []
    for rank in range(100):
        folding.take(said(rank, "slow"))
        clock.now += 0.01
        lines += shown(folding)
    clock.now += SETTLE_SECONDS
    lines += shown(folding)
    counts = [int(line.rsplit("(x ", 1)[1].split(" ")[0]) for line in lines]
    assert sum(counts) == 100
    assert len(lines) <= 3
    assert [" more ranks)" in line for line in lines] == [False] + [True] * (len(lines) - 1)


def test_only_other_ranks_are_more(folding: Folding, clock: Clock) -> None:
    """Of ranks that say again what they said, the number is told; of others that come later, how many more."""
    for ranks in ((0, 1, 2), (0, 1, 2), (2, 3), (1,)):
        for rank in ranks:
            folding.take(said(rank, "down"))
        clock.now += SETTLE_SECONDS
        (line,) = shown(folding)
        assert (
            line.removeprefix(f"error, rank {ranks[0]}: ")
            == {
                (0, 1, 2): "down (x 3 ranks)",
                (2, 3): "down (x 1 more rank, 2 times)",
                (1,): "down",
            }[ranks]
        )


def test_the_console_holds_a_record_for_a_moment() -> None:
    """A record is shown when it has settled, at the latest before the next notice or line, and at the end."""
    stream = io.StringIO()
    console = Console(stream, live=False)
    console.event(said(1, "first"))
    console.tick()
    assert stream.getvalue() == ""
    console.event(said(2, "first"))
    console.line("a notice")
    assert stream.getvalue() == "error, rank 1: first (x 2 ranks)\na notice\n"
    console.event(said(1, "second"))
    deadline = time.monotonic() + 20
    while "second" not in stream.getvalue() and time.monotonic() < deadline:
        console.tick()
        time.sleep(0.05)
    assert stream.getvalue().endswith("\nerror, rank 1: second\n")
    console.event(said(1, "third"))
    console.close()
    assert stream.getvalue().endswith("\nerror, rank 1: third\n")
