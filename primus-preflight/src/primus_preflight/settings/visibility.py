"""Which of a node's accelerators a process is shown, by its environment."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.plan import Accelerator

VARIABLES: Mapping[Accelerator, tuple[str, ...]] = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "cpu": (),
}
"""Of ROCm's, each counts among those that the one before it has left."""


def visible(env: Mapping[str, str], kind: Accelerator, count: int) -> tuple[int, ...]:
    """The driver's numbers of the accelerators that a process sees, in the order in which it sees them.

    A variable that names devices by their unique ids, or one that is not there, hides none here: which they are is
    not known.
    """
    shown = list(range(count))
    set_ones = [env[name] for name in VARIABLES[kind] if name in env]
    for value in set_ones if kind == "rocm" and "ROCR_VISIBLE_DEVICES" in env else set_ones[:1]:
        words = [word.strip() for word in value.split(",")] if value.strip() else []
        if all(word.isdecimal() and int(word) < len(shown) for word in words):
            shown = [shown[int(word)] for word in words]
    return tuple(shown)
