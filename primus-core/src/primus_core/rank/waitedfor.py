"""What a rank that has not begun to train waits for, by the place where it stands. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from primus_core.rank.standing import Frame


class Place(NamedTuple):
    """Code that waits."""

    file: str
    """A part of its path."""
    functions: tuple[str, ...]
    """Empty: any."""
    waits_for: str


_MEETING = ("init_process_group", "_new_process_group_helper", "_store_based_barrier")

_PLACES = (
    Place("torch/utils/file_baton.py", ("wait",), "another process that builds a library (its lock file may be stale)"),
    Place("torch/utils/cpp_extension.py", (), "the compiler, which builds a library"),
    Place("filelock/", (), "a file lock that another process holds"),
    Place("fcntl", (), "a file lock that another process holds"),
    Place("huggingface_hub/", (), "a download from the Hugging Face hub"),
    Place("torch/distributed/rendezvous.py", (), "the rendezvous: ranks that have not come to it"),
    Place("torch/distributed/distributed_c10d.py", _MEETING, "the rendezvous: ranks that have not come to it"),
    Place("torch/distributed/distributed_c10d.py", ("barrier", "monitored_barrier"), "the other ranks, in a barrier"),
    Place("megatron/core/datasets/", (), "the index of the training data"),
    Place("primus_core/data/", (), "the training data"),
    Place("primus_core/rank/collectives.py", ("wait",), "the other ranks, in a collective"),
    Place("torch/distributed/", (), "the other ranks"),
    Place("torch/_inductor/", (), "the compilation of the model"),
    Place("torch/_dynamo/", (), "the compilation of the model"),
)
"""The first that a frame of the stack is in, from the innermost frame on, counts."""


def waited_for(phase: str, stack: Sequence[Frame]) -> str:
    """In words; empty where nothing is known of the place."""
    if phase.startswith("wait for "):
        return phase.removeprefix("wait for ")
    return next((place.waits_for for frame in stack for place in _PLACES if _is_at(place, frame)), "")


def _is_at(place: Place, frame: Frame) -> bool:
    return place.file in frame.file and (not place.functions or frame.function in place.functions)
