"""What a rank's parent knows of the memory that its cgroup may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.rank.memory import MemoryLimit


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"memory.{name}").write_text(text)
    return folder


def of(root: Path, membership: str) -> MemoryLimit:
    (root / "membership").write_text(membership)
    return MemoryLimit.of_this_process(str(root / "membership"), str(root))


@pytest.mark.parametrize("inside", ["/job/rank", "/../seen/from/outside"])
def test_version_2(tmp_path: Path, inside: str) -> None:
    """The group's own limit and its count of kills; a container sees its group as the root, whatever its name is."""
    group = write(tmp_path / "job/rank" if "job" in inside else tmp_path, events="oom 0\noom_kill 2\n", max="4096\n")
    memory = of(tmp_path, f"0::{inside}\n")
    assert (memory.limit, memory.ran_out) == (4096, False)
    write(group, events="oom 1\noom_kill 3\n", max="max\n")
    assert (memory.limit, memory.ran_out) == (None, True)


def test_version_1(tmp_path: Path) -> None:
    """The limit of the hierarchy, and the count of kills; the largest number of pages stands for no limit."""
    stat = "cache 1\nhierarchical_memory_limit 1073741824\n"
    group = write(tmp_path / "memory/job", oom_control="under_oom 0\noom_kill 0\n", stat=stat)
    memory = of(tmp_path, "5:devices:/\n4:memory:/job\n0::/\n")
    assert (memory.limit, memory.ran_out) == (1 << 30, False)
    write(group, oom_control="under_oom 0\noom_kill 1\n", stat="hierarchical_memory_limit 9223372036854771712\n")
    assert (memory.limit, memory.ran_out) == (None, True)


def test_where_the_kernel_tells_nothing(tmp_path: Path) -> None:
    """Without a group to be read, or in a kernel that does not count kills, nothing is claimed."""
    assert (of(tmp_path, "").limit, of(tmp_path, "").ran_out) == (None, None)
    write(tmp_path / "memory", oom_control="under_oom 0\n")
    assert of(tmp_path, "4:memory:/\n").ran_out is None
