"""The suite `strided-allgather`: groups of every n-th rank, one after the other or all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import distributed

from primus_core.experiment import Value
from primus_preflight.benchmarks.rows import Row, rounded
from primus_preflight.kernels.device import DTYPES
from primus_preflight.kernels.timing import figures, repeat
from primus_preflight.kernels.together import Together, slowest
from primus_preflight.performance.values import bus_bytes


def strided_rows(asked: Mapping[str, Any], backend: str, all_ranks: Together) -> Iterator[list[Row]]:
    """One row for each group and size, in every rank.

    Args:
        asked: ``sizes_mb``, ``stride``, ``parallel``, ``warmup``, ``iters``, ``dtype``.
    """
    members = [list(range(first, all_ranks.world, asked["stride"])) for first in range(asked["stride"])]
    groups = [distributed.new_group(ranks, backend=backend) for ranks in members]
    for size in asked["sizes_mb"]:
        times = all_ranks.gather(_own_times(size, asked, groups, all_ranks))
        about = {name: asked[name] for name in ("stride", "parallel", "dtype")}
        yield [_row({**about, "size_mb": size, "backend": backend}, size, ranks, times) for ranks in members]


def _own_times(size: float, asked: Mapping[str, Any], groups: list[Any], all_ranks: Together) -> list[float]:
    """Of this rank's group; where groups take turns, the others wait."""
    own = all_ranks.rank % asked["stride"]
    found: list[float] = []
    for turn in [own] if asked["parallel"] else range(len(groups)):
        all_ranks.meet()
        if turn == own:
            found = _times(size, asked, groups[own], all_ranks.device)
    return found


def _times(size: float, asked: Mapping[str, Any], group: Any, device: torch.device) -> list[float]:
    dtype = DTYPES[asked["dtype"]]
    sent = torch.ones(max(1, int(size * 1e6) // dtype.itemsize), dtype=dtype, device=device)
    received = torch.empty(len(sent) * distributed.get_world_size(group), dtype=dtype, device=device)

    def work() -> object:
        return distributed.all_gather_into_tensor(received, sent, group=group)

    return repeat(work, device, warmup=asked["warmup"], iterations=asked["iters"])


def _row(about: Mapping[str, Value], size: float, ranks: list[int], times: list[list[float]]) -> Row:
    group = slowest([times[rank] for rank in ranks])
    found = figures(group)
    total, median = size * 1e6 * len(ranks), float(str(found["median_us"])) / 1e6
    return {
        **about,
        "group": " ".join(map(str, ranks)),
        **found,
        "algbw_gbs": rounded(total / median / 1e9),
        "busbw_gbs": rounded(bus_bytes("all_gather", 1, len(ranks)) * total / median / 1e9),
        "status": "ok",
        "error": None,
    }
