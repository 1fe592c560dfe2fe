"""What benchmarks measure in real ranks on the CPU, and what they say of figures that they cannot have."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from primus_preflight.benchmarks.rows import CONTEXT
from tests.preflight.measuring import Measuring

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "benchmark-rows.schema.json").read_text())
SMALL = ("--duration", "0.005")
FEW = ("--iters", "3", "--warmup", "1")


@pytest.fixture(scope="module")
def measuring() -> Iterator[Measuring]:
    with Measuring() as started:
        yield started


def kept(folder: Path) -> list[dict[str, Any]]:
    """The results in a run's folder, which have the documented layout."""
    rows = [json.loads(line) for line in (folder / "benchmark" / "results.jsonl").read_text().splitlines()]
    for row in rows:
        Draft202012Validator(SCHEMA).validate(row)
    return rows


def test_a_product_is_measured_and_compared(measuring: Measuring, tmp_path: Path) -> None:
    """Operations and bytes a second follow from the median time; host, device, versions and date stand beside them."""
    words = ("gemm", "-M", "64", "-N", "48", "-K", "32", "--trans_a", "--dtype", "fp32", *SMALL, "--output-file", "-")
    measuring.measure(tmp_path, *words).check()
    (row,) = kept(tmp_path)
    assert row["tflops"] == pytest.approx(2 * 64 * 48 * 32 / row["median_us"] / 1e6, rel=1e-3)
    assert row["gbs"] == pytest.approx(4 * (64 * 32 + 32 * 48 + 64 * 48) / row["median_us"] / 1e3, rel=1e-3)
    assert row["peak_percent"] == pytest.approx(100 * row["tflops"] / row["peak_tflops"], rel=1e-3)
    assert (row["peak_source"], row["trans_a"], row["trans_b"], row["status"]) == ("measured", True, False, "ok")
    assert row["min_us"] <= row["median_us"] <= row["max_us"]
    assert {name for name in CONTEXT if not row[name] and row[name] != 0} == {"runtime", "label"}


def test_each_product_of_a_model_is_measured_on_every_rank(measuring: Measuring, tmp_path: Path) -> None:
    """Every rank has a row for each product of a model with latent attention and experts."""
    sizes = {"hidden-size": 64, "intermediate-size": 96, "kv-lora-rank": 32, "moe-intermediate-size": 48}
    sizes |= {"num-attention-heads": 2, "n-routed-experts": 16, "num-experts-per-tok": 4, "q-lora-rank": 16}
    sizes |= {"vocab-size": 128, "seqlen": 64, "qk-nope-head-dim": 32, "qk-rope-head-dim": 16, "v-head-dim": 32}
    words = [f"--{name}={size}" for name, size in sizes.items()]
    output = tmp_path / "out.csv"
    measuring.measure(tmp_path / "run", "gemm-deepseek", *words, *SMALL, f"--output-file={output}", ranks=2).check()
    with output.open() as file:
        rows = list(csv.DictReader(file))
    measured = [[(row["operation"], row["phase"]) for row in rows if row["rank"] == rank] for rank in ("0", "1")]
    assert measured[0] == measured[1]
    assert len(set(measured[0])) == len(measured[0]) == 3 * 13
    assert len(kept(tmp_path / "run")) == len(rows)
    assert all(float(row["tflops"]) > 0 for row in rows)


def test_a_product_that_does_not_fit_fails_the_benchmark(measuring: Measuring, tmp_path: Path) -> None:
    """Memory that the host does not have is an error of that product, kept as a row, and never a success."""
    side = str(1 << 23)
    outcome = measuring.measure(tmp_path, "gemm", "-M", side, "-N", side, "-K", "1", "--output-file", "-")
    assert outcome.codes == (1,)
    assert outcome.error()["type"] == "RunError"
    (row,) = kept(tmp_path)
    assert row["status"] == "error"
    assert "memory" in row["error"]
    assert "tflops" not in row


def test_attention_has_the_kernels_that_are_there(measuring: Measuring, tmp_path: Path) -> None:
    """Forward and backward of each kernel that this CPU has; the backward pass counts 2.5 times the operations."""
    heads = ("--num-attention-heads=4", "--num-key-value-heads=2", "--head-dim=16")
    measuring.measure(tmp_path, "attention", "--seqlen=32", *heads, *SMALL, "--output-file=-").check()
    rows = {(row["kernel"], row["phase"]): row for row in kept(tmp_path)}
    assert set(rows) == {(kernel, phase) for kernel in ("flash", "math") for phase in ("forward", "backward")}
    work = {
        phase: rows["math", phase]["tflops"] * rows["math", phase]["median_us"] for phase in ("forward", "backward")
    }
    assert work["forward"] == pytest.approx(4 * 4 * 32**2 * 16 / 2 / 1e6, rel=1e-3)
    assert work["backward"] == pytest.approx(2.5 * work["forward"], rel=1e-3)


def test_a_kernel_that_is_asked_for_has_to_be_there(measuring: Measuring, tmp_path: Path) -> None:
    """cuDNN's attention by name, on a CPU, ends the benchmark with an error that says there is none."""
    outcome = measuring.measure(tmp_path, "attention", "--kernels=cudnn", "--seqlen=32", *SMALL, "--output-file=-")
    assert outcome.codes == (1,)
    assert "unavailable: the device has none" in outcome.error()["why"]


def test_collectives_are_verified_and_their_bandwidth_is_that_of_nccl_tests(
    measuring: Measuring, tmp_path: Path
) -> None:
    """Five operations over sizes; algorithm bandwidth is bytes by time, bus bandwidth that times the known factor."""
    ops = {"all_reduce": 1.0, "broadcast": 1.0, "reduce_scatter": 0.5, "all_gather": 0.5, "alltoall": 0.5}
    output = tmp_path / "out.jsonl.gz"
    words = ["--op", *ops, "--sizes=256,4K", "--check", "--per-rank", "--per-iter-trace", "--trace-limit=2"]
    measuring.measure(
        tmp_path / "run", "rccl", *words, *FEW, "--repeat=2", "--aggregate-repeat", f"--output-file={output}", ranks=2
    ).check()
    rows = kept(tmp_path / "run")
    assert [json.loads(line) for line in gzip.decompress(output.read_bytes()).splitlines()] == rows
    assert [(row["op"], row["bytes"], row["repeat"]) for row in rows] == [
        (op, size, repeat) for op in ops for size in (256, 4096) for repeat in (1, 2, "all")
    ]
    for row in rows:
        assert row["algbw_gbs"] == pytest.approx(row["bytes"] / row["median_us"] / 1e3, rel=1e-3)
        assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * ops[row["op"]], rel=1e-3)
        assert (row["status"], row["peak_source"]) == ("ok", "best here")
    ranks = gzip.decompress((tmp_path / "out_rank.jsonl.gz").read_bytes()).splitlines()
    trace = gzip.decompress((tmp_path / "out_trace.jsonl.gz").read_bytes()).splitlines()
    assert (len(ranks), len(trace)) == (5 * 2 * 2 * 2, 5 * 2 * 2 * 2 * 2)


def test_wrong_values_are_told(measuring: Measuring, tmp_path: Path) -> None:
    """A message in which one element is spoiled on its way is `wrong`, with rank, position and both values."""
    outcome = measuring.run(tmp_path, {}, world=2, entry="tests.preflight.spoiling:run").check()
    faults = [outcome.result(rank)["faults"] for rank in range(2)]
    assert [sorted(fault) for fault in faults] == [
        ["all_gather", "all_reduce", "alltoall", "broadcast", "reduce_scatter"]
    ] * 2
    assert all(text == "" for text in faults[0].values())
    for text in faults[1].values():
        assert text.startswith("rank 1: 1 of ")
        assert text.endswith(" at element 3")


def test_sizes_are_traced_as_they_were_asked_for(measuring: Measuring, tmp_path: Path) -> None:
    """Messages of three ranks have no whole parts of 1,000 and 4,096 bytes: the trace of one of them is of that one."""
    words = ["--op", "all_reduce", "broadcast", "--sizes=1000,4K", "--per-iter-trace", "--trace-sizes=1000"]
    output = tmp_path / "out.jsonl"
    measuring.measure(
        tmp_path / "run", "rccl", *words, "--trace-ops=broadcast", *FEW, f"--output-file={output}", ranks=3
    ).check()
    trace = [json.loads(line) for line in (tmp_path / "out_trace.jsonl").read_text().splitlines()]
    assert [(row["op"], row["bytes"], row["rank"], row["iteration"]) for row in trace] == [
        ("broadcast", 996, rank, number) for rank in range(3) for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("check", ["sums", "faults", "copies", "memory"])
def test_messages_of_many_ranks(measuring: Measuring, tmp_path: Path, check: str, dtype: str) -> None:
    """Sums of hundreds of ranks are exact in each type; a rank that is missing, doubled or mistaken for another, and a
    part in another's place, are noticed; nothing is made that is as large as the message."""
    asked = {"check": check, "dtype": dtype}
    measuring.run(tmp_path, asked, world=1, entry="tests.preflight.messages:run").check()


@pytest.mark.parametrize(
    ("work", "dtype", "fault", "told"),
    [
        ("gemm", "bf16", "one more", "1 of 128 rows of the product are wrong"),
        ("gemm", "fp16", "one more", "1 of 128 rows of the product are wrong"),
        ("gemm", "fp32", "one more", "1 of 128 rows of the product are wrong"),
        ("gemm", "bf16", "no product", "128 of 128 rows of the product are wrong"),
        ("hbm", "fp32", "no copy", "1024 of 1024 words of the copy are wrong"),
        ("train_step", "fp32", "loss", "the same step gave loss "),
    ],
)
def test_one_wrong_repetition_is_noticed(
    measuring: Measuring, tmp_path: Path, work: str, dtype: str, fault: str, told: str
) -> None:
    """A device that errs in one of four repetitions, by one in one element, or does nothing then."""
    asked = {"work": work, "dtype": dtype, "fault": fault}
    found = measuring.run(tmp_path, asked, world=1, entry="tests.preflight.spoiled_work:run").check().result()
    assert (found["well"], found["repetitions"]) == ("", 4)
    assert found["ill"].startswith(told)


def test_groups_of_every_second_rank_gather(measuring: Measuring, tmp_path: Path) -> None:
    """With stride 2 ranks 0 and 2 are a group and ranks 1 and 3 another; each has a row for each size."""
    words = ("--sizes-mb=0.01,0.02", "--stride=2", *FEW, "--output-file=-")
    for number, parallel in enumerate(((), ("--parallel",))):
        folder = tmp_path / str(number)
        measuring.measure(folder, "strided-allgather", *words, *parallel, ranks=4).check()
        rows = kept(folder)
        assert [(row["size_mb"], row["group"]) for row in rows] == [
            (size, group) for size in (0.01, 0.02) for group in ("0 2", "1 3")
        ]
        for row in rows:
            assert row["busbw_gbs"] == pytest.approx(row["size_mb"] * 1e3 / row["median_us"], rel=1e-3)
            assert row["parallel"] == bool(parallel)
