"""The task ``benchmark``: measure what the plan asks for, put the ranks' figures together, and write them down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from primus_core.contract import RankContext
from primus_core.errors import RunError
from primus_core.plan import RunPlan
from primus_preflight.benchmarks.keeping import keep, write_outputs
from primus_preflight.benchmarks.products import Product
from primus_preflight.benchmarks.rows import Peak, Row, with_peaks
from primus_preflight.kernels.attention import attention_rows
from primus_preflight.kernels.collectives import Tables, rccl_rows
from primus_preflight.kernels.device import about, device_of
from primus_preflight.kernels.gemm import gemm_rows
from primus_preflight.kernels.peaks import compute_peak, link_peak
from primus_preflight.kernels.strided import strided_rows
from primus_preflight.kernels.telling import line_of
from primus_preflight.kernels.together import Together, together

Arguments = Mapping[str, Any]
Suite = Callable[[Arguments, RunPlan, Together], Iterator[Tables]]


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Run the suite in every rank; the first one writes the files.

    Raises:
        DependencyError: a device or a library is not there.
        RunError: a figure could not be measured, or a collective gave wrong values; what was measured is written.
    """
    asked: Arguments = plan.task.arguments
    device = device_of(plan, rank)
    torch.manual_seed(rank.rank)
    backend = _backend(asked, device)
    rank.phase(f"benchmark {asked['suite']}")
    with together(rank, device, backend) as all_ranks:
        tables = _measured(plan, rank, all_ranks)
    if rank.rank:
        return {}
    written = write_outputs(asked, tables)
    for path in written:
        rank.notice("benchmark", f"results in {path}")
    _refuse_faults(tables["results"])
    return {"rows": len(tables["results"]), "files": list(written)}


def _measured(plan: RunPlan, rank: RankContext, all_ranks: Together) -> dict[str, list[Row]]:
    """All rows, of all ranks; what there is when one fails is kept too."""
    asked: Arguments = plan.task.arguments
    own = about(plan, rank, all_ranks.device)
    common = {
        "suite": asked["suite"],
        "run_id": plan.run_id,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "label": asked.get("label"),
    }
    places = all_ranks.gather(own)
    tables: dict[str, list[Row]] = {"results": [], "ranks": [], "trace": []}
    try:
        for found in _SUITES[asked["suite"]](asked, plan, all_ranks):
            for kind, rows in found.items():
                tables[kind] += [{**common, **places[_rank_of(row)], **row} for row in rows]
            _tell(found["results"], rank)
    finally:
        if rank.rank == 0:
            tables["results"] = _compared(asked, plan, all_ranks.device, tables["results"])
            keep(Path(plan.run_dir), tables)
    return tables


def _rank_of(row: Row) -> int:
    return int(str(row.get("rank", 0)))


def _tell(rows: Sequence[Row], rank: RankContext) -> None:
    for row in rows:
        if rank.rank == 0 and _rank_of(row) == 0:
            rank.notice("benchmark", line_of(row))


def _backend(asked: Arguments, device: torch.device) -> str | None:
    """Of the collectives that are measured; None where none are."""
    if asked["suite"] not in ("rccl", "strided-allgather"):
        return None
    return asked.get("backend") or ("nccl" if device.type == "cuda" else "gloo")


def _gemm(asked: Arguments, plan: RunPlan, all_ranks: Together) -> Iterator[Tables]:
    products = [Product.of_value(one) for one in asked["products"]]
    rows = gemm_rows(products, asked["dtype"], asked["seconds"], all_ranks.device)
    return _of_all_ranks(rows, all_ranks)


def _attention(asked: Arguments, plan: RunPlan, all_ranks: Together) -> Iterator[Tables]:
    rows = attention_rows(asked["shapes"], asked["kernels"], asked["dtype"], asked["seconds"], all_ranks.device)
    return _of_all_ranks(rows, all_ranks)


def _of_all_ranks(measured: Iterator[list[Row]], all_ranks: Together) -> Iterator[Tables]:
    """Each rank measures its own device, all at the same time: they share power and cooling in a training too."""
    for rows in measured:
        told = all_ranks.gather(rows)
        yield {"results": [{**row, "rank": rank} for rank, own in enumerate(told) for row in own]}


def _rccl(asked: Arguments, plan: RunPlan, all_ranks: Together) -> Iterator[Tables]:
    return rccl_rows(asked, str(_backend(asked, all_ranks.device)), all_ranks)


def _strided(asked: Arguments, plan: RunPlan, all_ranks: Together) -> Iterator[Tables]:
    for rows in strided_rows(asked, str(_backend(asked, all_ranks.device)), all_ranks):
        yield {"results": rows}


_SUITES: Mapping[str, Suite] = {
    "gemm": _gemm,
    "gemm-dense": _gemm,
    "gemm-deepseek": _gemm,
    "attention": _attention,
    "rccl": _rccl,
    "strided-allgather": _strided,
}


def _compared(asked: Arguments, plan: RunPlan, device: torch.device, rows: list[Row]) -> list[Row]:
    if _backend(asked, device) is None:
        peak = compute_peak(asked["dtype"], device)
        return with_peaks(rows, "tflops", {asked["dtype"]: peak} if peak else {}, "dtype")
    link = link_peak(device, plan.target.ranks_per_node, plan.target.nodes)
    group = "op" if asked["suite"] == "rccl" else "backend"
    peaks: dict[str, Peak] = {str(row[group]): link for row in rows} if link else {}
    return with_peaks(rows, "busbw_gbs", peaks, group)


def _refuse_faults(rows: Sequence[Row]) -> None:
    """Fail of what could not be measured: a benchmark without a figure is no success."""
    bad = [row for row in rows if row["status"] != "ok"]
    if bad:
        raise RunError(
            f"{len(bad)} of {len(rows)} measurements failed",
            where=str(bad[0]["host"]),
            why="\n".join(dict.fromkeys(line_of(row) for row in bad[:5])),
            remedy="the others are in the results; smaller dimensions need less memory",
        )
