"""A meeting ends in a time that follows from what it measures, whatever its nodes do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from primus_core.plan import Target
from primus_preflight.cli.options import limit_of, parser, performance_of
from primus_preflight.judging import Limits, judge
from primus_preflight.meeting.book import Book
from primus_preflight.meeting.coordinator import coordinate
from primus_preflight.meeting.room import Answer
from primus_preflight.model import Measurement
from primus_preflight.performance.budget import limited, meeting_seconds
from primus_preflight.performance.options import Options
from primus_preflight.performance.tokens import QUICK, TOKENS
from primus_preflight.performance.tokens import tests_named as trials
from tests.preflight.fabric import Fabric
from tests.preflight.test_judging import few, verdicts

OPTIONS = Options(sizes=(1 << 20, 1 << 24), iterations=1)


def minutes(nodes: int, *words: str) -> float:
    """How long the command waits for so many nodes."""
    target = Target(accelerator="cuda", library_version="", ranks_per_node=1, nodes=nodes)
    args = parser().parse_args(words)
    return limit_of(args, nodes, performance_of(args, target, None)) / 60


def test_what_is_measured_tells_how_long_the_command_waits() -> None:
    """Looks alone are given up after minutes, all pairs of many nodes not before they can be measured."""
    assert minutes(1) == 3
    assert minutes(4) < 7
    assert minutes(1, "--quick") < minutes(4, "--quick") < 33
    assert minutes(2, "--perf-test") < minutes(32, "--perf-test") > 60
    assert minutes(4, "--quick", "--test-seconds=10") < minutes(4, "--quick") / 1.4
    assert minutes(4, "--perf-test", "--timeout=60") == 1


@pytest.mark.parametrize("count", [1, 2, 4, 32, 33, 4096])
def test_every_round_of_a_healthy_meeting_has_its_part(count: int) -> None:
    """As many rounds are counted as there are, so that each may take a quarter of its limit."""
    fabric = Fabric(count)
    tests = trials(tuple(name for name in TOKENS if count < 100 or name in (*QUICK, "inter-p2p")))
    coordinate(fabric, 0, count, tests, OPTIONS, Book(lambda _: None))
    assert meeting_seconds(count, tests, OPTIONS) >= fabric.rounds * OPTIONS.seconds / 4


class Slow(Fabric):
    """Every test takes as long as it may, or a tenth of a second."""

    def ask(self, questions: Mapping[int, Mapping[str, Any]], seconds: float) -> dict[int, Answer]:
        time.sleep(min(0.1, seconds))
        return super().ask(questions, seconds)


def test_a_meeting_ends_when_its_time_is_over() -> None:
    """Nodes whose tests were cut, or never began, are not judged as good."""
    written: list[Sequence[Measurement]] = []
    began = time.monotonic()
    options = limited(OPTIONS, 4, trials(TOKENS), timeout=2.0)
    coordinate(Slow(4), 0, 4, trials(TOKENS), options, Book(written.append))
    assert time.monotonic() - began < 3
    found = written[-1]
    assert [one.status for one in found if one.test == "gemm"] == ["ok"] * 4
    cut = [one for one in found if one.test == "inter-p2p" and one.nodes == (2,)]
    assert [(one.status, one.error) for one in cut] == [
        ("error", "the meeting's time of 1 s was over before this test had ended")
    ]
    report = judge(few(*found, tests=TOKENS), Limits())
    assert verdicts(report) == dict.fromkeys(range(4), "error")
    assert report.exit_code == 1
