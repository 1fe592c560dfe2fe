"""Errors that say no more than that another rank is gone. Standard library only: the rank's parent uses it."""

from __future__ import annotations

import re

_LOST = re.compile(
    r"Connection (was likely )?(closed|reset)"  # gloo, TCPStore, sockets
    r"|Broken pipe|Socket Timeout|Connection refused"
    r"|remote process exited|ncclRemoteError|Last error:\s*socketProgress"  # NCCL, RCCL
    r"|NCCL communicator was aborted on rank"
    r"|failed to recv, got 0 bytes"  # TCPStore whose server ended
)


def lost_peer(text: str) -> bool:
    """Whether the text of an exception, of gloo, NCCL or a socket, tells of a peer that is gone."""
    return _LOST.search(text) is not None
