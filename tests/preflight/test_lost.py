"""Whom the loss of the node that held the meeting accuses: that node, and no other."""

from __future__ import annotations

import pytest

from primus_preflight.judging import Limits, judge
from primus_preflight.model import Measurement
from tests.preflight.test_judging import few, verdicts

REACHED = tuple(Measurement(test="reach", nodes=(a, b), values=(0.1,), unit="s") for a, b in ((1, 2), (2, 1)))


def lost(*nodes: int) -> tuple[Measurement, ...]:
    """What nodes say that attended the meeting of node 0."""
    how = "lost in the middle: it closed the connection"
    return tuple(Measurement(test="meeting", nodes=(node, 0), status="error", error=how) for node in nodes)


@pytest.mark.parametrize("others", [(1, 2), (1,)])
def test_a_node_that_held_the_meeting_and_did_not_come_to_the_next(others: tuple[int, ...]) -> None:
    """It fails; those that lost it pass, also where there is but one."""
    absent = Measurement(test="meeting", nodes=(0,), status="timeout", error="did not come")
    report = judge(few(*lost(*others), absent, *REACHED, nodes=len(others) + 1), Limits())
    assert verdicts(report) == {0: "failure"}
    assert [fault.what for fault in report.faults] == ["held the meeting of the nodes and was lost; they met again"]
    assert "it closed the connection" in report.faults[0].evidence[0]


def test_a_node_that_came_to_the_next_meeting() -> None:
    """Only its coordinator had died: a warning."""
    also = Measurement(test="reach", nodes=(0, 1), values=(0.1,), unit="s")
    assert verdicts(judge(few(*lost(0, 1, 2), *REACHED, also, nodes=3), Limits())) == {0: "warning"}
