"""What nodes of one run tell each other where they share no folder, and where one of them fails early."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.nodes.mirror import Mirror, is_for_guests
from primus_core.nodes.place import rough_place


def test_a_file_is_sent_once_for_each_change(tmp_path: Path) -> None:
    """Reports that are made or replaced are sent; what came from another node is not sent back, nor anything else."""
    (tmp_path / "ranks/stall-0").mkdir(parents=True)
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "ranks/rank-0.json").write_text("first")
    mirror = Mirror(tmp_path)
    assert list(mirror.changed()) == [("ranks/rank-0.json", "first")]
    assert list(mirror.changed()) == []
    assert mirror.take("ranks/rank-1.json", "theirs")
    assert mirror.take("ranks/stall-0/rank-1.json", "theirs")
    (tmp_path / "ranks/rank-0.json").write_text("second")
    assert list(mirror.changed()) == [("ranks/rank-0.json", "second")]
    assert (tmp_path / "ranks/rank-1.json").read_text() == "theirs"


WRONG = ("../report.json", "ranks/../../a.json", "/etc/passwd", "plan.json", "ranks/rank-1.txt")


@pytest.mark.parametrize("name", WRONG)
def test_no_other_file_is_taken(name: str, tmp_path: Path) -> None:
    """Whatever another node sends, it can write nothing but reports of ranks into this run's folder."""
    assert not Mirror(tmp_path / "run").take(name, "x")
    assert list(tmp_path.iterdir()) == []


def test_the_first_failure_counts(tmp_path: Path) -> None:
    """The mark of a rank of this node stays, when one of another node comes later; it is for all nodes."""
    mirror = Mirror(tmp_path)
    assert mirror.take("ranks/failed.json", "first")
    assert not mirror.take("ranks/failed.json", "second")
    assert (tmp_path / "ranks/failed.json").read_text() == "first"
    assert is_for_guests("ranks/failed.json")
    assert not is_for_guests("ranks/rank-0.json")


def test_a_new_start_begins_without_reports(tmp_path: Path) -> None:
    """What the start before left is taken away, on a node whose folder no other one clears; the plan stays."""
    for name in ("plan.json", "report.json", "ranks/rank-0.json", "ranks/failed.json", "ranks/rank-0.stacks"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    Mirror(tmp_path).clear()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["plan.json"]


def test_where_the_others_are_is_known_although_something_is_wrong() -> None:
    """A number out of range or none at all does not hide the others; without an address nobody can be told."""
    env = {"NNODES": "2", "NODE_RANK": "7", "MASTER_PORT": "1234"}
    assert rough_place(env, {"master_addr": "node1"}) == (2, "node1", 1234)
    assert rough_place({**env, "MASTER_PORT": "x"}, {"master_addr": "node1"}) is None
    assert rough_place(env, {}) is None
    assert rough_place({}, {"master_addr": "node1"}) is None
