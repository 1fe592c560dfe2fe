"""Making a checkpoint whole: its files read back and their checksums written down, by all ranks at once.

Each rank reads the files that it wrote, which are still in its host's memory, and leaves their sums in a small file
beside the checkpoint. Rank 0 waits for these, reads what is nobody's, and writes the marker. None of it is a
collective: what takes long goes on in a thread while the run trains.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from primus_core.checkpoints.contents import Stored, listing, read_back, writer
from primus_core.checkpoints.folders import Naming
from primus_core.checkpoints.sidecar import Sidecar, as_mapping
from primus_core.errors import RunError

SMALL = 64 << 20
"""Bytes that a rank reads back in the foreground, in less than 0.1 s."""
_POLL_SECONDS = (0.005, 0.2)


@frozen
class _Failure:
    """Of the last checkpoint."""

    iteration: int
    error: Exception
    sealed: bool = field(kw_only=True)
    """This rank's part was done before."""


class Sealer:
    """Makes the checkpoints of one run whole, one after the other, in one rank.

    Args:
        undo: called in the thread that saves with the iteration of a checkpoint that will never be whole, and with what
            it failed of; may raise an error that tells more.
        wrote: whether this rank wrote a file, by its path in the checkpoint; default: as the file's name tells.
    """

    def __init__(
        self,
        naming: Naming,
        save: str,
        *,
        rank: int,
        world_size: int,
        undo: Callable[[int, Exception], None] = lambda iteration, error: None,
        wrote: Callable[[str], bool] | None = None,
    ) -> None:
        self._naming, self._save, self._rank, self._world_size = naming, save, rank, world_size
        self._undo, self._wrote = undo, wrote or (lambda name: writer(name) == rank)
        self._thread: threading.Thread | None = None
        self._failed: _Failure | None = None

    def seal(
        self,
        iteration: int,
        sidecar: Sidecar | None,
        then: Callable[[Path], None],
        *,
        background: bool = False,
    ) -> None:
        """Make a checkpoint whole whose files are all written.

        Args:
            sidecar: what the marker tells beside the files; rank 0's counts, the others give none.
            then: called in every rank when its part is done, in rank 0 when the marker is written; maybe in a thread.
            background: never let the caller wait: the ranks do not call this at the same time.

        Raises:
            RunError: as `wait`, for what was done in the foreground.
        """
        self.wait()
        arguments = (iteration, sidecar, then)
        if background or self._largest_share(iteration) > SMALL:
            # a daemon: a run that fails must be able to end; `wait` is for those that do not
            self._thread = threading.Thread(target=self._guarded, args=arguments, name="checkpoint", daemon=True)
            self._thread.start()
        else:
            self._guarded(*arguments)
            self.wait()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the last checkpoint is whole, at most so long.

        Raises:
            RunError: it could not be made whole, or what is called then failed.
        """
        if self._thread is not None:
            self._thread.join(seconds)
        if self._failed is not None:
            failed, self._failed = self._failed, None
            if not failed.sealed:
                self._undo(failed.iteration, failed.error)
            what = "what is done after a checkpoint failed" if failed.sealed else "a checkpoint could not be completed"
            folder = str(self._naming.folder(self._save, failed.iteration))
            raise RunError(what, where=folder, why=str(failed.error)) from failed.error

    def _guarded(self, iteration: int, sidecar: Sidecar | None, then: Callable[[Path], None]) -> None:
        sealed = False
        try:
            folder = self._seal(iteration, sidecar)
            sealed = True
            then(folder)
        except Exception as error:  # noqa: BLE001  # `wait` raises it in the thread that saves
            whole = sealed or self._naming.is_whole(self._save, iteration)
            self._failed = _Failure(iteration, error, sealed=whole)

    def _seal(self, iteration: int, sidecar: Sidecar | None) -> Path:
        """This rank's part of it."""
        folder = self._naming.folder(self._save, iteration)
        own = read_back(folder, filter(self._wrote, listing(folder)))
        if sidecar is None:
            self._write_part(iteration, own)
        else:
            files = own | self._parts(iteration)
            files |= read_back(folder, listing(folder).keys() - files)
            facts = as_mapping(evolve(sidecar, time=time.time(), files=files))
            self._naming.finish_saving(self._save, iteration, facts)
        return folder

    def _write_part(self, iteration: int, files: Mapping[str, Stored]) -> None:
        content = {name: (stored.size, stored.sha256) for name, stored in files.items()}
        path = self._naming.saving(self._save, iteration) / f"rank-{self._rank}.json"
        unseen = path.with_suffix(".tmp")
        unseen.write_text(json.dumps(content), encoding="utf-8")
        unseen.replace(path)  # in one step; not synchronized with the disk, which only the marker has to be

    def _parts(self, iteration: int) -> dict[str, Stored]:
        """What the other ranks read back; waits until the last one has."""
        files, pause = {}, _POLL_SECONDS[0]
        for rank in range(self._world_size):
            path = self._naming.saving(self._save, iteration) / f"rank-{rank}.json"
            while rank != self._rank:
                try:
                    part = json.loads(path.read_text(encoding="utf-8"))
                    break
                except FileNotFoundError:
                    time.sleep(pause)
                    pause = min(2 * pause, _POLL_SECONDS[1])
            else:
                continue
            files.update({name: Stored(size, sha256) for name, (size, sha256) in part.items()})
        return files

    def _largest_share(self, iteration: int) -> int:
        """Bytes of the rank that has most to read."""
        shares: Counter[int] = Counter()
        for name, size in listing(self._naming.folder(self._save, iteration)).items():
            shares[writer(name) or 0] += size
        return max(shares.values(), default=0)
