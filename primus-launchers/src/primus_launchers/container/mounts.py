"""Which files of the host a container sees, under the paths that they have there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from attrs import evolve

from primus_core.plan import Mount


def covering(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """The same files and folders without what others hold; parents come first.

    Something read-only inside of what is writable goes with it: a folder that is mounted cannot be removed, such as an
    old checkpoint that the run started from.
    """
    kept: list[Mount] = []
    for mount in sorted(mounts, key=lambda one: (posixpath.normpath(one.path), not one.writable)):
        if not any(one.writable >= mount.writable and holds(one, mount.path) for one in kept):
            kept.append(evolve(mount, path=posixpath.normpath(mount.path)))
    return tuple(kept)


def holds(mount: Mount, path: str) -> bool:
    """Whether an absolute path is that of the mount, or below it."""
    folder = posixpath.normpath(mount.path)
    return posixpath.commonpath([folder, path]) == folder


def as_option(mount: Mount, source: str) -> str:
    """The value of ``--mount``: one line of comma-separated values, so that a path may hold colons and commas."""
    words = ["type=bind", f"source={source}", f"target={mount.path}", *([] if mount.writable else ["readonly"])]
    return ",".join(map(_quoted, words))


def _quoted(word: str) -> str:
    return '"{}"'.format(word.replace('"', '""')) if any(sign in word for sign in ',"\n') else word
