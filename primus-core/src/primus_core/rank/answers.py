"""What each rank's parent says of its rank when there is a stall, and how that reads. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from primus_core.rank.standing import Call, Frame

_RUNTIME = ("/primus_core/rank/", "<frozen ", "/torch/")
"""Frames of these say how a place was reached or that something is waited for, but not what the run was doing."""
_WAITING = ("/primus_core/rank/collectives.py", "/torch/distributed/", "/torch/autograd/")
_MOST_NAMED = 8
_STATES = {"D": "in the kernel, which does not let go of it (disk or network file system)", "T": "stopped by a signal"}


class Answer(NamedTuple):
    """One rank at the moment of the inquiry."""

    rank: int
    host: str
    phase: str
    iteration: int | None
    idle: float
    """Seconds without progress."""
    limit: float
    """Seconds without progress after which it counts as stalled here."""
    state: str
    """Of its process, as ``ps`` shows it."""
    stack: Sequence[Frame]
    calls: Sequence[Call]
    groups: Mapping[str, Sequence[int]]

    @property
    def is_stalled(self) -> bool:
        return self.idle > self.limit

    @property
    def waits(self) -> bool:
        """Whether its Python code stands in a collective."""
        return bool(self.stack) and any(part in self.stack[0].file for part in _WAITING)

    @property
    def place(self) -> str:
        """``/a/b.py:31 in stuck, from /a/b.py:12 in step``: the run's own code, if its stack has any; may be empty."""
        own = [frame for frame in self.stack if not _is_runtime(frame.file)]
        return ", from ".join(map(_line, own[:2] or self.stack[:1]))

    @property
    def standing(self) -> str:
        """In words: at a place, or why none is known."""
        if self.phase == "done":
            return "has done its work"
        return f"at {self.place}" if self.place else _STATES.get(self.state, "gave no Python stack")

    @property
    def moment(self) -> str:
        return f"phase {self.phase}" + ("" if self.iteration is None else f", after iteration {self.iteration}")


def from_map(found: Mapping[str, Any]) -> Answer:
    """From JSON.

    Raises:
        KeyError, TypeError: it is something else.
    """
    lists = {
        "stack": [Frame(*frame) for frame in found["stack"]],
        "calls": [Call(*call) for call in found["calls"]],
    }
    return Answer(**{**found, **lists})


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 2-7``; many spans are cut and counted."""
    numbers = sorted(ranks)
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    shown = ", ".join("-".join(map(str, span)) for span in spans[:_MOST_NAMED])
    more = f", ... ({len(numbers)} in all)" if len(spans) > _MOST_NAMED else ""
    return f"rank{'s' * (len(numbers) != 1)} {shown}{more}"


def _is_runtime(file: str) -> bool:
    """Of Primus' rank, torch, or Python's own library."""
    is_python = "/lib/python3" in file and "-packages/" not in file
    return is_python or any(part in file for part in _RUNTIME)


def _line(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} in {frame.function}"
