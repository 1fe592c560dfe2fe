"""What node 0 offers the others to run, and what they have to share for it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from primus_core.errors import ConfigError, RunError


@frozen(kw_only=True)
class Offer:
    """A plan that is written."""

    run_id: str
    folder: Path
    """Of the run."""
    plan: Path
    text: str
    digest: str
    shared: Sequence[str] = ()
    """Folders that all nodes have to share, whatever else they do not: checkpoints are written there in pieces."""

    def not_shared(self, name: str) -> ConfigError:
        """The error of a workspace that is not the same everywhere."""
        return ConfigError(
            f"the workspace is not shared: {name} does not see what node 0 has written",
            where=str(self.plan),
            why="a node without the plan has nothing to start",
            remedy="set `workspace:` to a folder of a file system that all nodes have; or, where there is none, give "
            "every node the same --run-id and MASTER_PORT: then each keeps the files of its own ranks",
        )

    def in_pieces(self, name: str, folder: str) -> ConfigError:
        """The error of checkpoints that would be spread over the nodes' own disks."""
        return ConfigError(
            f"checkpoints would be saved in pieces: {name} does not see the folder on node 0",
            where=folder,
            why="each rank writes its own part of a checkpoint, and only all parts in one folder can be loaded",
            remedy="set `save:` to a folder that all nodes share, or save_interval to null",
        )


@contextlib.contextmanager
def shown(folders: Sequence[str]) -> Iterator[list[str]]:
    """Put a sign into each folder for the others to look for; gives the paths of the signs.

    Raises:
        RunError: a folder cannot be written.
    """
    signs = [os.path.join(folder, f".{secrets.token_hex(8)}.seen") for folder in folders]
    try:
        for sign in signs:
            os.makedirs(os.path.dirname(sign), exist_ok=True)
            Path(sign).touch()
        yield signs
    except OSError as error:
        why = error.strerror or str(error)
        raise RunError(
            "checkpoints cannot be saved", where=str(error.filename), why=why, remedy="mend `save:`"
        ) from None
    finally:
        for sign in signs:
            with contextlib.suppress(OSError):
                os.unlink(sign)
