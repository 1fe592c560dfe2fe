"""What surrounds a library's own saving, in each rank: room, announcement, marker, and what goes afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from primus_core.checkpoints.choosing import Choice
from primus_core.checkpoints.contents import listing
from primus_core.checkpoints.folders import Naming, put_aside, sweep
from primus_core.checkpoints.retention import Retention
from primus_core.checkpoints.sealing import Sealer
from primus_core.checkpoints.settling import Peers, Rank
from primus_core.checkpoints.sidecar import Sidecar
from primus_core.checkpoints.space import Room, is_disk_full, size_on_disk
from primus_core.errors import RunError

_LAST_SECONDS = 5.0
_FIRST_SECONDS = 1.0
"""How much earlier rank 0 tells of a failure that all ranks see: the others are ended meanwhile, and repeat nothing."""
_UNKNOWN = Room(folder="", needed=0, free=0)


class Saver:
    """The checkpoints of one run in one rank: `begin`, the library's save, then `finish` or `failed`.

    Args:
        save: the folder that they are saved to.
        start: what the run started from, which is never deleted.
        wrote: whether this rank wrote a file, by its path in the checkpoint; default: as the file's name tells.
        on_whole: called with the folder of each that is whole, maybe in another thread.
    """

    def __init__(
        self,
        naming: Naming,
        save: str,
        rank: Rank,
        peers: Peers,
        *,
        retention: Retention,
        start: Choice,
        on_whole: Callable[[Path], None],
        wrote: Callable[[str], bool] | None = None,
    ) -> None:
        self._naming, self._save, self._rank, self._peers = naming, save, rank, peers
        self._retention, self._start, self._on_whole = retention, start, on_whole
        self._sealer = Sealer(
            naming, save, rank=rank.rank, world_size=rank.world_size, undo=self._unsealed, wrote=wrote
        )
        self._size = size_on_disk(start.checkpoint) if rank.rank == 0 and start.continues else 0
        """Bytes of the last one, as far as rank 0 knows; 0: not known."""

    def begin(self, iteration: int, *, last: bool, estimate: Callable[[], int]) -> bool:
        """Announce a checkpoint, in every rank at once; False: there is no room, and the run goes on without it.

        Args:
            last: the run ends with it.
            estimate: bytes that it will take, of the model; asked while no checkpoint of the run tells.

        Raises:
            RunError: there is no room for the last one; or the one before could not be completed.
        """
        self._sealer.wait()
        room: Room = self._peers.first(self._prepare(iteration, estimate) if self._rank.rank == 0 else _UNKNOWN)
        self._size = room.needed
        if room.is_enough:
            return True
        if last:
            self._let_first_speak()
            raise self._no_room(f"there is no room for the last checkpoint, of iteration {iteration}", room)
        if self._rank.rank == 0:
            self._rank.log("warning", f"no checkpoint of iteration {iteration}: {room}; the run goes on")
        return False

    def finish(self, iteration: int, sidecar: Sidecar | None, *, background: bool = False) -> None:
        """All files are written: make the checkpoint whole; `Sealer.seal` says how.

        Args:
            sidecar: given in rank 0 alone.
        """
        self._sealer.seal(iteration, sidecar, self._finished, background=background)

    def failed(self, iteration: int, error: BaseException) -> None:
        """The library's save raised: nothing of it stays. The caller raises the error again.

        Raises:
            RunError: in its place, where the disk is full.
        """
        folder = self._naming.folder(self._save, iteration)
        room, written = Room.of(self._save, self._size), sum(listing(folder).values())
        self._let_first_speak()
        self._naming.discard(self._save, iteration)
        # libraries tell what other processes met without saying what it was
        if is_disk_full(error) or room.free + written < room.needed:
            what = f"the disk became full while the checkpoint of iteration {iteration} was written"
            raise self._no_room(what, room) from error

    def wait(self) -> None:
        """Wait until the last one is whole.

        Raises:
            RunError: it could not be completed.
        """
        self._sealer.wait()

    def leave(self) -> None:
        """The run fails: give a checkpoint that is written, and not yet whole, some seconds."""
        with contextlib.suppress(RunError):  # what the run failed of comes first
            self._sealer.wait(_LAST_SECONDS)

    def _unsealed(self, iteration: int, error: Exception) -> None:
        """Files that cannot be read back may be of use yet; those on a full disk are in the way."""
        if is_disk_full(error):
            self.failed(iteration, error)

    def _prepare(self, iteration: int, estimate: Callable[[], int]) -> Room:
        Path(self._save).mkdir(parents=True, exist_ok=True)
        sweep(self._save)
        room = Room.of(self._save, self._size or estimate())
        if room.is_enough:
            self._naming.begin_saving(self._save, iteration)
        return room

    def _finished(self, folder: Path) -> None:
        self._on_whole(folder)
        self._rank.log("info", "checkpoint complete", folder=str(folder))
        if self._rank.rank == 0:
            self._delete_old()

    def _delete_old(self) -> None:
        """By the rule of retention; damaged ones neither count nor go. Where there is one, interrupted saves go too."""
        whole = [item for item in self._naming.marked(self._save) if item not in self._start.damaged]
        self._size = size_on_disk(max(whole, key=lambda item: item.written, default=None))
        protected = [self._start.checkpoint.folder] if self._start.checkpoint else []
        for item in self._retention.superfluous(whole, protected):
            put_aside(item.folder)
            self._rank.log("info", "checkpoint deleted", folder=str(item.folder))
        for iteration in self._naming.unfinished(self._save) if self._retention.is_any else ():
            self._naming.discard(self._save, iteration)
        sweep(self._save)

    def _let_first_speak(self) -> None:
        if self._rank.rank != 0:
            time.sleep(_FIRST_SECONDS)

    def _no_room(self, what: str, room: Room) -> RunError:
        return RunError(
            what,
            where=self._save,
            why=str(room),
            remedy="make room, or keep fewer with keep_last_checkpoints; auto_continue_train: true then goes on from "
            "the newest whole checkpoint",
        )
