"""How long work takes on a device: many repetitions, their middle and their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from primus_core.experiment import Value
from primus_preflight.benchmarks.rows import rounded

Work = Callable[[], object]
_BATCH = 200
_MOST = 100_000
"""Repetitions that count: more of them take memory and tell nothing new."""


def repeat(work: Work, device: torch.device, *, warmup: int, iterations: int) -> list[float]:
    """Seconds of each repetition.

    On a GPU they are enqueued without a wait between them and timed by the device's own events: the time to launch
    them counts only where it is longer than they are.
    """
    for _ in range(warmup):
        work()
    if device.type != "cuda":
        return [_clocked(work) for _ in range(iterations)]
    torch.cuda.synchronize(device)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    torch.cuda.synchronize(device)
    return [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(events)]


def repeat_for(work: Work, device: torch.device, *, warmup: int, seconds: float) -> list[float]:
    """The same, for so long by the host's clock; at least one repetition."""
    times = repeat(work, device, warmup=warmup, iterations=1)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds and len(times) < _MOST:
        left = seconds - (time.perf_counter() - began)
        batch = min(_BATCH, max(1, int(left / max(statistics.median(times), 1e-7))))
        times += repeat(work, device, warmup=0, iterations=batch)
    return times


def figures(times: Sequence[float]) -> dict[str, Value]:
    """The columns on time of a row; the spread is that of the middle 80 %, in percent of the median."""
    ordered = sorted(times)
    median = statistics.median(ordered)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.9))
    return {
        "iterations": len(ordered),
        "median_us": rounded(median * 1e6),
        "min_us": rounded(ordered[0] * 1e6),
        "max_us": rounded(ordered[-1] * 1e6),
        "spread_percent": rounded(100 * (high - low) / median) if median else 0.0,
    }


def _clocked(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
