"""A checkpoint is whole with sizes and checksums of all its files; what is damaged, and what may go."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from primus_core.checkpoints.choosing import Choice
from primus_core.checkpoints.contents import Stored, faults, listing, read_back, share
from primus_core.checkpoints.folders import LIBRARIES, MARKER, Checkpoint, newest_first
from primus_core.checkpoints.retention import Retention
from primus_core.checkpoints.saver import Saver
from primus_core.checkpoints.sealing import SMALL, Sealer
from primus_core.checkpoints.settling import settle, size_faults
from primus_core.checkpoints.sidecar import Sidecar, read_sidecar
from primus_core.checkpoints.space import Room, is_disk_full, size_on_disk
from primus_core.errors import RunError
from tests.forked.context import Rank

T = TypeVar("T")
NAMING = LIBRARIES["TorchTitan"]
SIDECAR = Sidecar(
    step=0,
    time=0,
    run_id="run",
    library="torchtitan",
    library_version="0.3.0",
    format="dcp",
    world_size=2,
    layout={},
    distributed_optimizer=None,
    tokens=0,
)


NOTHING, ONLY = Choice(checkpoint=None), Rank(0, 1, None)
"""A run that starts anew, and its one rank."""


class Alone:
    """The collectives of a run of one rank."""

    def first(self, value: T) -> T:
        return value

    def all(self, value: T) -> list[T]:
        return [value]


def write(save: Path, iteration: int, ranks: int = 2, size: int = 1000) -> Path:
    """What a library leaves: a file of each rank, and the metadata."""
    NAMING.begin_saving(save, iteration)
    folder = NAMING.folder(save, iteration)
    folder.mkdir()
    for rank in range(ranks):
        (folder / f"__{rank}_0.distcp").write_bytes(bytes([iteration % 256, rank]) * (size // 2))
    (folder / ".metadata").write_bytes(b"metadata")
    return folder


def save_whole(save: Path, *iterations: int) -> list[Checkpoint]:
    """Whole checkpoints, the one written last first."""
    for iteration in iterations:
        write(save, iteration, ranks=1)
        Sealer(NAMING, str(save), rank=0, world_size=1).seal(iteration, SIDECAR, lambda _: None)
    return newest_first(NAMING.marked(save))


def settled(save: Path, *, sums: bool = True) -> Choice:
    first, *older = newest_first(NAMING.marked(save))
    return settle(Choice(checkpoint=first, older=tuple(older)), ONLY, Alone(), sums=sums)


def test_ranks_seal_a_checkpoint_together(tmp_path: Path) -> None:
    """Each reads what it wrote back, and the marker has the size and checksum of every file, nested ones too."""
    folder = write(tmp_path, 10, ranks=3)
    (folder / "deep").mkdir()
    (folder / "deep/common.pt").write_bytes(b"")
    sealers = [Sealer(NAMING, str(tmp_path), rank=rank, world_size=3) for rank in range(3)]
    done: list[Path] = []
    for sealer in sealers:  # rank 0 first: it waits for the others
        sealer.seal(10, SIDECAR if sealer is sealers[0] else None, done.append, background=True)
    for sealer in sealers:
        sealer.wait()
    sidecar = read_sidecar(folder / MARKER)
    assert sidecar
    assert {name: stored.size for name, stored in sidecar.files.items()} == {
        ".metadata": 8,
        "__0_0.distcp": 1000,
        "__1_0.distcp": 1000,
        "__2_0.distcp": 1000,
        "deep/common.pt": 0,
    }
    assert dict(sidecar.files) == read_back(folder, sidecar.files)
    assert (sidecar.step, done, NAMING.is_whole(tmp_path, 10)) == (10, [folder] * 3, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-10"]


def test_no_checkpoint_is_whole_before_every_rank_has_read_its_part_back(tmp_path: Path) -> None:
    """Rank 0 waits for the sums of a rank that is late."""
    write(tmp_path, 10)
    first, second = (Sealer(NAMING, str(tmp_path), rank=rank, world_size=2) for rank in range(2))
    first.seal(10, SIDECAR, lambda _: None, background=True)
    time.sleep(0.1)
    assert not NAMING.is_whole(tmp_path, 10)
    second.seal(10, None, lambda _: None)
    first.wait()
    assert NAMING.is_whole(tmp_path, 10)


def test_a_large_checkpoint_is_read_back_while_the_run_goes_on(tmp_path: Path) -> None:
    """More than what takes a tenth of a second is done in a thread; a small one is whole when the save returns."""
    folder = write(tmp_path, 10, ranks=1)
    with (folder / "__0_0.distcp").open("wb") as file:
        file.truncate(SMALL + 1)
    threads: list[str] = []
    sealer = Sealer(NAMING, str(tmp_path), rank=0, world_size=1)
    sealer.seal(10, SIDECAR, lambda _: threads.append(threading.current_thread().name))
    sealer.wait()
    write(tmp_path, 20, ranks=1)
    sealer.seal(20, SIDECAR, lambda _: threads.append(threading.current_thread().name))
    assert threads == ["checkpoint", "MainThread"]


def test_a_file_that_cannot_be_read_back_ends_the_run(tmp_path: Path) -> None:
    """The checkpoint is not declared whole, and the next save or the end of the run says which and why."""
    folder = write(tmp_path, 10, ranks=1)
    (folder / "__0_0.distcp").unlink()
    (folder / "__0_0.distcp").symlink_to("/proc/self/mem")
    sealer = Sealer(NAMING, str(tmp_path), rank=0, world_size=1)
    sealer.seal(10, SIDECAR, lambda _: None, background=True)
    with pytest.raises(RunError) as caught:
        sealer.wait()
    assert (caught.value.where, NAMING.is_whole(tmp_path, 10)) == (str(folder), False)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut short": (lambda file: os.truncate(file, 10), "has 10 of 1,000 bytes"),
    "missing": (lambda file: file.unlink(), "is missing"),
    "longer": (lambda file: file.write_bytes(bytes(1001)), "is larger than what was written"),
    "changed": (lambda file: file.write_bytes(bytes(1000)), "has another content than what was written"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_older_checkpoint_is_taken_in_place_of_a_damaged_one(tmp_path: Path, damage: str) -> None:
    """Whatever became of a file; by sizes alone all but changed content is seen."""
    act, words = DAMAGE[damage]
    newest, older = save_whole(tmp_path, 10, 20)
    act(newest.folder / "__0_0.distcp")
    assert list(faults(newest.folder, _files(newest), _files(newest), sums=True)) == [f"__0_0.distcp {words}"]
    choice = settled(tmp_path)
    assert (choice.checkpoint, choice.damaged) == (older, (newest,))
    by_size = settled(tmp_path, sums=False).checkpoint
    assert by_size == (newest if damage == "changed" else older)
    assert bool(size_faults(newest)) == (damage != "changed")


def test_a_marker_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    """A truncated ``primus.json`` cannot vouch for the files."""
    newest, older = save_whole(tmp_path, 10, 20)
    os.truncate(newest.folder / MARKER, 40)
    assert MARKER in size_faults(newest)
    assert settle(Choice(checkpoint=newest, older=(older,)), ONLY, Alone(), sums=True).checkpoint == older


def test_where_all_are_damaged_the_run_ends(tmp_path: Path) -> None:
    """Never a start from random weights in place of a checkpoint."""
    for one in save_whole(tmp_path, 10, 20):
        (one.folder / ".metadata").unlink()
    with pytest.raises(RunError, match="the checkpoint to start from is damaged") as caught:
        settled(tmp_path)
    assert ".metadata is missing" in caught.value.why


def test_the_ranks_share_the_work() -> None:
    """Each file is one rank's: its writer's, also where there are fewer ranks now, or whose turn it is."""
    names = [f"__{rank}_{part}.distcp" for rank in range(4) for part in range(2)] + [".metadata", "a/b.pt"]
    for world in (1, 2, 3, 4, 7):
        shares = [share(names, rank, world) for rank in range(world)]
        assert sorted(name for one in shares for name in one) == sorted(names)
    assert [name for name in share(names, 3, 4) if name.endswith(".distcp")] == ["__3_0.distcp", "__3_1.distcp"]


def kept(retention: Retention, whole: list[Checkpoint], *protected: Path) -> list[int]:
    gone = retention.superfluous(whole, protected)
    return sorted(item.iteration for item in whole if item not in gone)


def test_what_is_kept() -> None:
    """The last ones by when they were written, every n-th, and what the run started from; else all."""
    whole = [
        Checkpoint(folder=Path(f"/save/step-{step}"), iteration=step, written=number)
        for number, step in enumerate((90, 10, 20, 30, 40, 50))
    ]
    assert kept(Retention(), whole) == [10, 20, 30, 40, 50, 90]
    assert kept(Retention(last=2), whole) == [40, 50]
    assert kept(Retention(last=2, every=20), whole) == [20, 40, 50]
    assert kept(Retention(every=30), whole) == [30, 50, 90]
    assert kept(Retention(last=1), whole, Path("/save/../save/step-10")) == [10, 50]
    assert kept(Retention(last=9), whole) == [10, 20, 30, 40, 50, 90]
    assert kept(Retention(last=1), whole[:1]) == [90]


def saver(
    save: Path,
    start: Choice = NOTHING,
    *,
    rank: Rank = ONLY,
    on_whole: Callable[[Path], None] = lambda folder: None,
    **keep: int,
) -> Saver:
    return Saver(NAMING, str(save), rank, Alone(), retention=Retention(**keep), start=start, on_whole=on_whole)


def save_with(one: Saver, save: Path, *iterations: int) -> None:
    for iteration in iterations:
        assert one.begin(iteration, last=False, estimate=lambda: 0)
        NAMING.folder(save, iteration).mkdir()
        (NAMING.folder(save, iteration) / "__0_0.distcp").write_bytes(bytes(1000))
        one.finish(iteration, SIDECAR)


def test_the_start_and_the_damaged_ones_stay(tmp_path: Path) -> None:
    """Of a run that fell back to 10 because 20 is damaged, and saves on: 10 is what it started from, 20 not its own."""
    damaged, start = save_whole(tmp_path, 10, 20)
    choice = Choice(checkpoint=damaged, older=(start,)).without_newest()
    one = saver(tmp_path, choice, last=1)
    save_with(one, tmp_path, 30, 40)
    assert [item.iteration for item in NAMING.marked(tmp_path)] == [10, 20, 40]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-10", "step-20", "step-40"]


@pytest.mark.parametrize("keep", [{}, {"last": 3}], ids=["all", "the last"])
def test_what_a_killed_save_left_goes_where_old_checkpoints_do(tmp_path: Path, keep: dict[str, int]) -> None:
    """Where nothing is to be deleted it stays, and is no checkpoint."""
    write(tmp_path, 15)
    save_with(saver(tmp_path, **keep), tmp_path, 20)
    left = [] if keep else ["step-15", "step-15.saving"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*left, "step-20"]
    assert [item.iteration for item in NAMING.marked(tmp_path)] == [20]


def test_a_deletion_that_was_interrupted_is_finished_later(tmp_path: Path) -> None:
    """A half-deleted checkpoint has no name that anybody takes, and the next save deletes the rest."""
    save_whole(tmp_path, 10)
    rest = tmp_path / ".step-5.deleting-1"
    rest.mkdir()
    assert NAMING.steps(tmp_path) == [10]
    save_with(saver(tmp_path), tmp_path, 20)
    assert not rest.exists()


def test_what_stood_in_the_place_of_a_checkpoint_is_gone(tmp_path: Path) -> None:
    """Files of an earlier save of the same iteration, by more ranks, are not taken for files of the new one."""
    write(tmp_path, 10, ranks=4)
    save_with(saver(tmp_path), tmp_path, 10)
    assert sorted(listing(tmp_path)) == ["step-10/__0_0.distcp", f"step-10/{MARKER}"]


def test_without_room_a_save_is_left_out_and_the_last_one_is_an_error(tmp_path: Path) -> None:
    """Both figures are told; nothing is announced or deleted, and the last save ends the run."""
    one = saver(tmp_path)
    huge = 1 << 60
    assert not one.begin(10, last=False, estimate=lambda: huge)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RunError, match="no room for the last checkpoint, of iteration 20") as caught:
        one.begin(20, last=True, estimate=lambda: huge)
    assert "it takes about 1048576.0 TiB" in caught.value.why
    assert f"{tmp_path} has" in caught.value.why


def test_the_room_is_that_of_the_last_checkpoint(tmp_path: Path) -> None:
    """Once the run has saved, or where it continues, its own checkpoint tells what the next one takes.

    One that it began from may be without an optimizer, or another model's: then the model tells.
    """
    (start,) = save_whole(tmp_path, 10)
    assert size_on_disk(start) == 1008
    for continues in (True, False):
        one = saver(tmp_path, Choice(checkpoint=start, continues=continues))
        assert one.begin(20, last=False, estimate=lambda: 1 << 60) is continues
    assert Room(folder="/", needed=2, free=1).is_enough is False


def test_a_save_that_failed_leaves_nothing(tmp_path: Path) -> None:
    """Its files would fill the disk for ever; a full disk is told as such, with figures, anything else as it is."""
    one = saver(tmp_path)
    assert one.begin(10, last=False, estimate=lambda: 0)
    NAMING.folder(tmp_path, 10).mkdir()
    full = RuntimeError("worker failed")
    full.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(RunError, match="the disk became full while the checkpoint of iteration 10 was written"):
        one.failed(10, full)
    assert list(tmp_path.iterdir()) == []
    one.failed(10, ValueError("bad tensor"))
    assert is_disk_full(RuntimeError("rank 1: [Errno 28] No space left on device"))


def _files(checkpoint: Checkpoint) -> dict[str, Stored]:
    sidecar = read_sidecar(checkpoint.folder / MARKER)
    assert sidecar
    return dict(sidecar.files)
