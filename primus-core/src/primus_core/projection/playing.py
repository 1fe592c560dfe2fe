"""The state of a pipeline rank that runs the passes of its micro batches one after the other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from primus_core.records import frozen

Kind = Literal["forward", "backward", "input", "weight", "reduce"]
"""``input`` and ``weight`` are the two halves of a backward pass, for activations and for weights; after the last of a
chunk comes ``reduce``."""
Action = tuple[Kind, int]
"""With the chunk."""


@frozen(kw_only=True)
class Step:
    """One pass of a micro batch through a chunk."""

    kind: Kind
    chunk: int
    kept: tuple[int, ...]
    """By chunk, the other micro batches that have run forward and not backward."""
    halved: tuple[int, ...]
    """By chunk, those whose weights have no gradient yet and whose activations have."""
    trained: frozenset[int]
    """Chunks that have run backward already."""
    pending: frozenset[int] = frozenset()
    """Those with gradients of weights that are not added to the ones before yet: the next backward pass does it."""
    reduced: frozenset[int] = frozenset()
    """Those whose gradients are reduced."""
    gathered: frozenset[int] = frozenset()
    """Those that ran backward last, or that the schedule has gathered beforehand."""
    given: tuple[int, ...] = ()
    """By chunk, the micro batches of the step whose activations had their gradients apart from the weights; empty:
    none."""
    sent: int | None = None
    """The chunk that ran forward just before this backward pass."""
    coming: int | None = None
    """The chunk that runs forward just after it."""
    first: int | None = None
    """The chunk of the micro batch that ran forward last before any ran backward, once it has itself and others have
    run forward after it."""
    returned: int | None = None
    """The chunk of the backward pass before, where it was of the chunk's last micro batch so far, or of the `first`."""

    @property
    def alone(self) -> Hashable:
        """All but how many other micro batches are kept; whether any of a chunk is."""
        chunks = (self.trained, self.pending, self.reduced, self.gathered, tuple(map(bool, self.kept)))
        return self.kind, self.chunk, *chunks, self.given, self.sent, self.coming, self.first, self.returned


class State:
    """What a pipeline rank has run."""

    def __init__(self, chunks: int, *, ahead: bool) -> None:
        self.gathered = frozenset(range(chunks) if ahead else ())
        self.kept, self.halved, self.given = [0] * chunks, [0] * chunks, [0] * chunks
        self.trained, self.pending, self.reduced = frozenset[int](), frozenset[int](), frozenset[int]()
        self.forwards, self.backwards = [0] * chunks, [0] * chunks
        self.sent: int | None = None
        self.first: tuple[int, int] | None = None
        self.returned: tuple[int, int] | None = None
        """Chunks, with the number of the micro batch."""

    def before(self, kind: Kind, chunk: int, coming: int | None, left_out: int) -> Step:
        """The next pass; what it works on is not among what other micro batches keep."""
        if kind == "weight":
            self.halved[chunk] -= 1
        elif kind in ("backward", "input"):
            self.kept[chunk] -= 1
        return Step(
            kind=kind,
            chunk=chunk,
            kept=tuple(self.kept),
            halved=tuple(self.halved),
            trained=self.trained,
            pending=self.pending,
            reduced=self.reduced,
            gathered=self.gathered,
            given=tuple(number + left_out if number else 0 for number in self.given) if any(self.given) else (),
            sent=None if kind == "forward" else self.sent,
            coming=None if kind == "forward" else coming,
            first=self.first[0] if self.first and self._is_over(*self.first) else None,
            returned=self._returned(),
        )

    def _is_over(self, chunk: int, number: int) -> bool:
        return self.backwards[chunk] > number and self.forwards[chunk] > number + 1

    def _returned(self) -> int | None:
        if self.returned is None:
            return None
        chunk, number = self.returned
        return chunk if self.forwards[chunk] == number + 1 or self.returned == self.first else None

    def after(self, kind: Kind, chunk: int) -> None:
        """It has run."""
        self._count(kind, chunk)
        self.kept[chunk] += kind == "forward"
        self.halved[chunk] += kind == "input"
        self.given[chunk] += kind == "input"
        if kind in ("forward", "reduce"):
            self.gathered -= {chunk}
        elif kind in ("backward", "input"):
            self.gathered |= {chunk}
        if kind == "weight":
            self.pending |= {chunk}
        elif kind == "reduce":
            self.reduced |= {chunk}
        elif kind == "backward" or (kind == "input" and chunk in self.pending):
            self.trained, self.pending = self.trained | {chunk}, self.pending - {chunk}

    def _count(self, kind: Kind, chunk: int) -> None:
        if kind in ("backward", "input"):
            if self.sent is not None and not any(self.backwards):
                self.first = (self.sent, self.forwards[self.sent] - 1)
            self.returned = (chunk, self.backwards[chunk])
            self.backwards[chunk] += 1
        self.forwards[chunk] += kind == "forward"
        self.sent = chunk if kind == "forward" else None
