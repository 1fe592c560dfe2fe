"""What `--quick` measures is enough to name slow nodes, wherever they are: verdicts on meetings of computed nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest

from primus_preflight.judging import Limits, Report, judge
from primus_preflight.meeting.book import Book
from primus_preflight.meeting.coordinator import coordinate
from primus_preflight.model import Measurement
from primus_preflight.performance import tokens
from primus_preflight.performance.options import Options
from tests.preflight.fabric import Fabric
from tests.preflight.test_judging import few, verdicts


def judged(
    nodes: int, slow: Mapping[int, float], busy: Mapping[int, int] | None = None, seconds: float = math.inf
) -> tuple[Report, int]:
    """The verdict on a meeting of nodes of which some have slow links, and how many rounds of tests it took.

    Args:
        seconds: limit of the meeting.
    """
    fabric, written = Fabric(nodes, slow=slow, busy=busy), list[Sequence[Measurement]]()
    options = Options(sizes=(1 << 28,), iterations=3, meeting_seconds=seconds)
    coordinate(fabric, 0, nodes, tokens.tests_named(tokens.QUICK), options, Book(written.append))
    return judge(few(*written[-1], nodes=nodes, tests=tokens.QUICK), Limits()), fabric.rounds


@pytest.mark.parametrize("count", [4, 5, 6, 8])
def test_any_two_slow_nodes_are_both_named(count: int) -> None:
    """Also where each half, and each pair of neighbours, has one: nobody else is accused."""
    for bad in combinations(range(count), 2):
        report, _ = judged(count, dict.fromkeys(bad, 0.5))
        assert verdicts(report) == dict.fromkeys(bad, "failure"), bad
        assert {fault.kind for fault in report.faults} == {"slow"}, bad


def test_two_that_are_slow_by_different_parts() -> None:
    """The slower one does not make the other one good."""
    report, _ = judged(6, {1: 0.7, 4: 0.25})
    assert verdicts(report) == {1: "failure", 4: "failure"}


@pytest.mark.parametrize("count", [3, 8, 300])
def test_healthy_nodes_cost_a_few_rounds(count: int) -> None:
    """One of all, and three of pairs beside the products; nobody is accused."""
    report, rounds = judged(count, {})
    assert (report.faults, rounds) == ((), 5)


def test_many_of_thousands_are_named_in_a_few_rounds() -> None:
    """Twenty of 1,024, neighbours and others."""
    bad = {*range(500, 510), *range(3, 1000, 100)}
    report, rounds = judged(1024, dict.fromkeys(bad, 0.6))
    assert verdicts(report) == dict.fromkeys(sorted(bad), "failure")
    assert rounds < 12


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_moment_of_load_accuses_nobody(rounds: int) -> None:
    """A node that has other work at first is measured again when it may be done; one that always has is named."""
    assert judged(6, {}, busy={2: rounds})[0].faults == ()
    assert verdicts(judged(6, {}, busy={2: 1000})[0]) == {2: "failure"}


def test_nothing_is_tried_again_when_time_is_short() -> None:
    """A try that had to be cut would be an error of a node that works."""
    report, rounds = judged(6, {}, busy={2: 1000}, seconds=Options(sizes=()).seconds)
    assert verdicts(report) == {2: "failure"}
    assert rounds < judged(6, {}, busy={2: 1000})[1]
