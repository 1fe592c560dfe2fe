r"""Lines of many nodes through the one output of ``srun``.

Slurm passes lines on whole only while they are short (1024 bytes with its header); longer ones of several nodes mix. So
a line travels in pieces, each a line of its own: ``\x1d``, the node's number, its stream (``o`` or ``e``), ``+`` where
more of the same line follows or ``.``, and the piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

_MARK = b"\x1d"
_LONGEST = 900
_FRAME = re.compile(rb"\x1d(\d+)([oe])([+.])")
STREAMS = {"out": b"o", "err": b"e"}


@frozen
class Line:
    """One line as a node said it."""

    node: int
    stream: str
    """``out`` or ``err``."""
    text: bytes


def encode(line: Line) -> bytes:
    """The pieces of a line; a carriage return or a mark in it does no harm."""
    head = _MARK + str(line.node).encode() + STREAMS[line.stream]
    pieces = [line.text[start : start + _LONGEST] for start in range(0, len(line.text), _LONGEST)] or [b""]
    return b"".join(head + (b"." if piece is pieces[-1] else b"+") + piece + b"\n" for piece in pieces)


class Joiner:
    """Makes whole lines of pieces again."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, str], bytes] = {}

    def feed(self, line: bytes) -> Iterator[Line | bytes]:
        """The line that a piece completes; what is no piece is given back as it is, such as a word of Slurm's own."""
        before, mark, rest = line.partition(_MARK)
        found = _FRAME.match(mark + rest)
        if found is None:
            yield line
            return
        if before:
            yield before
        key = int(found[1]), "out" if found[2] == b"o" else "err"
        text = self._begun.pop(key, b"") + (mark + rest)[found.end() :]
        if found[3] == b"+":
            self._begun[key] = text
        else:
            yield Line(*key, text)
