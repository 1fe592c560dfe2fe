"""The standard streams of a rank's child: pipes to its parent."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from primus_core import linux
from primus_core.rank.channels import Channels


def redirect(channels: Channels) -> None:
    """Send descriptors 1 and 2 to the parent, read nothing from 0, and make Python and C write whole lines."""
    os.dup2(channels.stdout.write, 1)
    os.dup2(channels.stderr.write, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor in (nothing, channels.stdout.write, channels.stderr.write):
        os.close(descriptor)
    channels.close_readers()
    # New objects: the old ones may believe that they are a file that can seek, and then cannot be reconfigured.
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = _writer(descriptor)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    linux.buffer_stdout_by_line()


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _writer(descriptor: int) -> TextIO:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
