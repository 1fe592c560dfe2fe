"""The suite `rccl`: collectives of rising size, with NCCL, RCCL or gloo by one code path."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from primus_core.experiment import Value
from primus_preflight.benchmarks.rows import Kind, Row, rounded
from primus_preflight.kernels.buffers import COLLECTIVES, Buffers
from primus_preflight.kernels.device import DTYPES
from primus_preflight.kernels.timing import figures, repeat
from primus_preflight.kernels.together import Together, slowest
from primus_preflight.performance.values import bus_bytes

Tables = Mapping[Kind, Sequence[Row]]


def rccl_rows(asked: Mapping[str, Any], backend: str, all_ranks: Together) -> Iterator[Tables]:
    """The rows of each operation and size, in every rank.

    Args:
        asked: ``ops``, ``sizes``, ``dtype``, ``warmup``, ``iters``, ``repeat``, ``aggregate``, ``check``,
            ``per_rank``, ``trace``.
    """
    for op in asked["ops"]:
        for size in asked["sizes"]:
            one = COLLECTIVES[op](size, DTYPES[asked["dtype"]], all_ranks.rank, all_ranks.world, all_ranks.device)
            about = {"op": op, "bytes": one.bytes, "dtype": asked["dtype"], "backend": backend}
            trace = asked["trace"] if _is_traced(op, size, asked["trace"]) else None
            yield _measured(one, about, {**asked, "trace": trace}, all_ranks)


def _is_traced(op: str, size: int, trace: Mapping[str, Any] | None) -> bool:
    """Whether times of each repetition are wanted of a size as it was asked for; messages are of whole parts."""
    return trace is not None and op in (trace["ops"] or [op]) and size in (trace["sizes"] or [size])


def _measured(one: Buffers, about: dict[str, Value], asked: Mapping[str, Any], all_ranks: Together) -> Tables:
    fault = _fault(one, all_ranks) if asked["check"] else ""
    one.fill()
    results: list[Row] = []
    ranks: list[Row] = []
    trace: list[Row] = []
    medians = []
    for number in range(1, asked["repeat"] + 1):
        all_ranks.meet()
        own = repeat(one.work, all_ranks.device, warmup=asked["warmup"], iterations=asked["iters"])
        times = all_ranks.gather(own)
        named = {**about, "repeat": number}
        results.append(_row(named, slowest(times), one, fault))
        medians.append(statistics.median(slowest(times)))
        ranks += _of_ranks(named, times) if asked["per_rank"] else []
        trace += _of_repetitions(named, times, asked["trace"]["limit"]) if asked["trace"] else []
    if asked["aggregate"] and asked["repeat"] > 1:
        results.append(_row({**about, "repeat": "all"}, medians, one, fault))
    return {"results": results, "ranks": ranks, "trace": trace}


def _fault(one: Buffers, all_ranks: Together) -> str:
    """What is wrong with the values of one message, of the first rank that found something."""
    one.fill()
    all_ranks.meet()
    one.work()
    all_ranks.meet()
    return next(filter(None, all_ranks.gather(one.fault())), "")


def _row(about: Mapping[str, Value], times: Sequence[float], one: Buffers, fault: str) -> Row:
    median = statistics.median(times)
    return {
        **about,
        **figures(times),
        "algbw_gbs": rounded(one.bytes / median / 1e9),
        "busbw_gbs": rounded(bus_factor(str(about["op"]), one.world) * one.bytes / median / 1e9),
        "status": "wrong" if fault else "ok",
        "error": fault or None,
    }


def bus_factor(op: str, world: int) -> float:
    """How many bytes a rank's link carries for each byte of the message, as nccl-tests define bus bandwidth."""
    match op:
        case "broadcast":
            return 1.0
        case "alltoall":
            return bus_bytes("all_to_all", 1, world)
        case "all_reduce" | "all_gather" | "reduce_scatter":
            return bus_bytes(op, 1, world)
    raise ValueError(op)


def _of_ranks(about: Mapping[str, Value], times: Sequence[Sequence[float]]) -> list[Row]:
    return [{**about, **figures(own), "rank": rank} for rank, own in enumerate(times)]


def _of_repetitions(about: Mapping[str, Value], times: Sequence[Sequence[float]], limit: int) -> list[Row]:
    return [
        {**about, "rank": rank, "iteration": number, "us": rounded(seconds * 1e6)}
        for rank, own in enumerate(times)
        for number, seconds in enumerate(own[: limit or None], start=1)
    ]
