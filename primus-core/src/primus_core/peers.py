"""Errors that say no more than that another rank is gone. Standard library only: the rank's parent uses it."""

from __future__ import annotations

import re

_LOST = re.compile(r"Connection (closed|reset)|Broken pipe|Socket Timeout|remote process exited")


def lost_peer(text: str) -> bool:
    """Whether the text of an exception, of gloo, NCCL or a socket, tells of a peer that is gone."""
    return _LOST.search(text) is not None
