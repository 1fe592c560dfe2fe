"""Disks that become full when a library has written all its files, before the checkpoint is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from primus_core.checkpoints.saver import Saver
from primus_core.errors import RunError
from tests.core.test_checkpoints_whole import NAMING, SIDECAR, saver, write
from tests.forked.context import Rank
from tests.forked.disks import fill, small_disk

pytestmark = pytest.mark.cluster


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """With a checkpoint of two ranks, all files written, and no room left."""
    with small_disk(tmp_path / "disk", "size=8m") as place:
        write(place, 10)
        fill(place / "filler")
        yield place


def finish(one: Saver, rank: int, *, background: bool = False) -> None:
    """To the point where the run would hear of a failure."""
    one.finish(10, None if rank else SIDECAR, background=background)
    one.wait()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("background", [False, True])
def test_a_disk_that_becomes_full_before_a_checkpoint_is_whole(disk: Path, rank: int, background: bool) -> None:
    """For the marker, or for a rank's checksums: told as while the library writes, and nothing of it stays."""
    whole: list[Path] = []
    with pytest.raises(RunError, match="the disk became full while the checkpoint of iteration 10 was written"):
        finish(saver(disk, rank=Rank(rank, rank + 1, None), on_whole=whole.append), rank, background=background)
    assert ([path.name for path in disk.iterdir()], whole) == (["filler"], [])


def test_a_disk_that_becomes_full_after_it_leaves_a_whole_checkpoint(disk: Path) -> None:
    """What is done next needs room, too: the run fails, and goes on from this checkpoint."""
    (disk / "filler").unlink()

    def late(folder: Path) -> None:
        fill(disk / "filler")
        (disk / "more").write_bytes(bytes(1 << 20))

    with pytest.raises(RunError, match="what is done after a checkpoint failed") as caught:
        finish(saver(disk, on_whole=late), 0)
    assert "No space left on device" in caught.value.why
    assert NAMING.is_whole(disk, 10)
