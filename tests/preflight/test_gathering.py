"""How long a preflight waits for its nodes, and what it takes of what they left."""

from __future__ import annotations

import io
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from primus_core.cli.main import main
from primus_core.codec import to_json
from primus_core.files import write_atomic
from primus_core.submit.console import Console
from primus_preflight.agent.files import Measured, write_node
from primus_preflight.cli.starting import Hearing
from primus_preflight.gathering import Waiting, read
from primus_preflight.model import Measurement, Node


class Clock:
    """Time that a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def left(folder: Path, number: int, *, done: bool, host: str = "", ended: float = 1.0) -> None:
    write_node(folder, Node(node=number, host=host or f"node{number}", ended=ended, complete=done))


def enough_after(seconds: float, folder: Path, *, meets: bool) -> bool:
    clock = Clock()
    waiting = Waiting(folder, limit=600, meets=meets, quiet=30, stall=200, clock=clock)
    waiting.begin()
    assert not waiting.enough()
    clock.now += seconds
    return waiting.enough()


@pytest.mark.parametrize(
    ("done", "begun", "meets", "seconds", "enough"),
    [
        ((), (0, 1), False, 599, False),
        ((), (0, 1), False, 601, True),
        ((0,), (), False, 29, False),
        ((0,), (), False, 31, True),
        ((1,), (0,), True, 199, False),
        ((1,), (0,), True, 201, True),
        ((1,), (0,), False, 31, True),
        ((0,), (1,), True, 31, True),
        ((1, 2), (), True, 31, True),
    ],
)
def test_how_long_nodes_are_waited_for(
    done: tuple[int, ...], begun: tuple[int, ...], meets: bool, seconds: float, enough: bool, tmp_path: Path
) -> None:
    """To the limit; or until nothing has come for a while, once one has said all: of a meeting, who holds it."""
    for number in (*done, *begun):
        left(tmp_path, number, done=number in done)
    assert enough_after(seconds, tmp_path, meets=meets) is enough


def test_files_of_single_nodes_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes whose files are not given do not count as missing; one that others accuse is in every format all the
    same, by its number."""
    left(tmp_path, 3, done=True)
    accused = (
        Measurement(test="meeting", nodes=(2, 0), status="timeout", error="it is silent"),
        Measurement(test="meeting", nodes=(7,), status="timeout", error="it never came"),
    )
    write_node(tmp_path, Node(node=2, host="node2", ended=1.0, complete=True, measurements=accused))
    given = [str(tmp_path / f"node-{number}.json") for number in (2, 3)]
    assert main(["preflight", "report", *given, "--output", str(tmp_path / "report")]) == 3
    suite = ET.parse(tmp_path / "report" / "report.junit.xml").getroot()
    cases = {case.get("name"): case.find("failure") is not None for case in suite}
    assert cases == {"node2": True, "node3": False, "node 7": True, "between nodes": False}
    said = capsys.readouterr().out
    assert "2 nodes answered, ended" in said
    assert "did not answer" not in said
    assert main(["preflight", "report", given[1], "--output", str(tmp_path / "well")]) == 0


def test_time_runs_from_the_moment_when_the_nodes_are_given(tmp_path: Path) -> None:
    """Waiting in a queue is not the nodes' fault."""
    clock = Clock()
    waiting = Waiting(tmp_path, limit=10, meets=False, clock=clock)
    clock.now += 100_000
    assert not waiting.enough()
    waiting.begin()
    clock.now += 11
    assert waiting.enough()


def test_a_scheduler_tells_when_it_has_given_the_nodes() -> None:
    """Their names are kept, and their time begins; nothing else that is said begins it."""
    given: list[str] = []
    shown = io.StringIO()
    hearing = Hearing(Console(shown, live=False), lambda: given.append("given"))
    hearing.event({"kind": "notice", "topic": "slurm", "text": "job 7 waits for its nodes"})
    assert given == []
    hearing.event({"kind": "nodes", "hosts": ["node1", "node2"]})
    assert (given, hearing.hosts) == (["given"], ("node1", "node2"))


def test_what_is_measured_is_a_sign_of_life(tmp_path: Path) -> None:
    """One node has gone its own way; the others measure, and are waited for as long as they tell something."""
    left(tmp_path, 1, done=True)
    left(tmp_path, 0, done=False)
    clock = Clock()
    waiting = Waiting(tmp_path, limit=6000, meets=True, stall=200, clock=clock)
    waiting.begin()
    for number in range(10):
        write_atomic(tmp_path / "measurements.json", "")
        os.utime(tmp_path / "measurements.json", (number, number))
        assert not waiting.enough()
        clock.now += 150
    clock.now += 51
    assert waiting.enough()


def test_the_meeting_that_most_nodes_came_to_counts(tmp_path: Path) -> None:
    """A node that is cut off holds one alone and misses all others there; that accuses nobody."""
    for number in range(3):
        left(tmp_path, number, done=True)
    met(tmp_path, 0, (2,))
    met(tmp_path, 2, (0, 1))
    assert [one.nodes for one in read([tmp_path]).measurements] == [(2,)]


def test_a_meeting_that_broke_off_does_not_count(tmp_path: Path) -> None:
    """Its nodes have met again without the one that was lost."""
    for number in range(3):
        left(tmp_path, number, done=number > 0)
    met(tmp_path, 0, (), complete=False)
    met(tmp_path, 1, (0,))
    assert [one.nodes for one in read([tmp_path]).measurements] == [(0,)]


def met(folder: Path, coordinator: int, missed: tuple[int, ...], *, complete: bool = True) -> None:
    said = tuple(Measurement(test="meeting", nodes=(node,), status="timeout") for node in missed)
    name = f"measurements-{coordinator}.json" if coordinator else "measurements.json"
    measured = Measured(run_id="r", coordinator=coordinator, measurements=said, complete=complete)
    write_atomic(folder / name, to_json(measured))
