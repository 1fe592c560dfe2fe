"""Files that are written whole or not at all. Standard library only: the rank's parent uses it."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def nearest_existing(path: Path) -> Path:
    """The folder itself or the closest one above it, as far as this user can see; a file where one is in the way."""
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder) or not folder.name)


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part; makes its folder. Text is UTF-8.

    Raises:
        OSError: the disk is full or the folder is not writable; nothing is left behind.
    """
    folder, name = os.path.split(os.fspath(path))
    os.makedirs(folder or ".", exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
