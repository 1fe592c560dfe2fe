"""What a test's time is worth: bytes or operations for each second."""

from __future__ import annotations

from collections.abc import Sequence

from primus_preflight.model import Unit
from primus_preflight.performance.tokens import Work

_SCALE: dict[Unit, float] = {"GB/s": 1e9, "TFLOP/s": 1e12}


def bus_bytes(work: Work, size: int, ranks: int) -> float:
    """Bytes that each rank's link has to carry, so that figures of groups of different sizes can be compared.

    The definitions are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md, "bus bandwidth").

    Args:
        size: bytes of the buffer; of the ranks' parts together where each rank has a part.
    """
    shared = (ranks - 1) / ranks
    factors: dict[str, float] = {
        "all_reduce": 2 * shared,
        "all_gather": shared,
        "reduce_scatter": shared,
        "all_to_all": shared,
        "transfer": 1.0,
        "ring": 1.0,
    }
    return size * factors[work]


def figures(seconds: Sequence[Sequence[float]], amount: float, unit: Unit) -> tuple[float, ...]:
    """One figure for each repetition, by the rank that took longest.

    Args:
        seconds: of each rank, one for each repetition.
        amount: bytes or operations of one repetition.
    """
    scale = _SCALE[unit]
    return tuple(float(f"{amount / max(max(times), 1e-9) / scale:.6g}") for times in zip(*seconds, strict=True))
