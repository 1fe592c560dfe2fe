"""`primus benchmark` before anything is measured: suites, models, sizes, files, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from primus_core.cli.main import main
from primus_preflight.benchmarks.outputs import write_output
from primus_preflight.benchmarks.products import Product
from primus_preflight.benchmarks.rows import CONTEXT, Peak, Row, columns_of, with_peaks
from primus_preflight.benchmarks.sizes import sweep
from tests.e2e.support import EXAMPLE
from tests.preflight.measuring import arguments

ABOUT: Row = dict.fromkeys(CONTEXT, "x")
ROW: Row = {**ABOUT, "host": "n|1", "world_size": 2, "device": "D", "label": None, "op": "all_reduce", "bytes": 1024}
ROW = {**ROW, "dtype": "bf16", "median_us": 1.5, "busbw_gbs": 2.0, "status": "ok"}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIMUS_WORKSPACE", str(tmp_path / "workspace"))


def products(*words: str) -> dict[tuple[str, str], Product]:
    """What a command line measures, by operation and phase."""
    found = arguments(*words)["products"]
    assert isinstance(found, list)
    made = [Product.of_value(one) for one in found if isinstance(one, dict)]
    return {(one.operation, one.phase): one for one in made}


def test_the_reference_s_defaults() -> None:
    """Without options a suite measures what the reference's does."""
    (product,) = products("gemm").values()
    assert (product.m, product.n, product.k, product.trans_a, product.trans_b) == (4096, 4096, 4096, False, False)
    gemm, rccl, strided = arguments("gemm"), arguments("rccl"), arguments("strided-allgather")
    assert (gemm["dtype"], gemm["seconds"]) == ("bf16", 10.0)
    assert (rccl["ops"], rccl["iters"], rccl["warmup"], rccl["dtype"]) == (["all_reduce"], 100, 20, "bf16")
    assert rccl["sizes"] == sweep(1 << 10, 128 << 20, 12, "log2")
    assert (strided["sizes_mb"], strided["stride"], strided["iters"], strided["warmup"]) == ([64, 128, 256], 8, 50, 10)
    assert [Path(str(one["outputs"]["results"])).name for one in (gemm, rccl, strided)] == [  # type: ignore[index,call-overload]  # a mapping
        "gemm_report.md",
        "rccl_report.md",
        "strided-allgather_report.md",
    ]


def test_a_dense_model_by_name() -> None:
    """Llama 3.1 8B, in any case of letters: the shapes of its weights, forward and for both gradients."""
    found = products("gemm-dense", "--model", "LLAMA3.1_8b", "--seqlen", "1024", "--mbs", "2")
    forward = {name: (one.m, one.n, one.k) for (name, phase), one in found.items() if phase == "forward"}
    assert forward == {
        "attention qkv": (2048, 4096 + 2 * 8 * 128, 4096),
        "attention output": (2048, 4096, 4096),
        "mlp gate and up": (2048, 2 * 14336, 4096),
        "mlp down": (2048, 4096, 14336),
        "output layer": (2048, 128256, 4096),
    }
    down = [found["mlp down", phase] for phase in ("forward", "input gradient", "weight gradient")]
    assert [(one.m, one.n, one.k, one.trans_a, one.trans_b) for one in down] == [
        (2048, 4096, 14336, False, True),
        (2048, 14336, 4096, False, False),
        (4096, 14336, 2048, True, False),
    ]
    assert len({one.flops for one in down}) == 1


def test_a_model_with_latent_attention_and_experts_by_name() -> None:
    """DeepSeek-V3: down and up projections, dense first layers, experts that share the tokens, a shared expert."""
    found = products("gemm-deepseek", "--model", "Deepseek_V3", "--seqlen", "4096")
    forward = {name: (one.m, one.n, one.k) for (name, phase), one in found.items() if phase == "forward"}
    assert forward["attention q down"] == (4096, 1536, 7168)
    assert forward["attention q up"] == (4096, 128 * (128 + 64), 1536)
    assert forward["attention kv down"] == (4096, 512 + 64, 7168)
    assert forward["attention kv up"] == (4096, 128 * (128 + 128), 512)
    assert forward["attention output"] == (4096, 7168, 128 * 128)
    assert forward["mlp down"] == (4096, 7168, 18432)
    assert forward["router"] == (4096, 256, 7168)
    assert forward["expert gate and up"] == (4096 * 8 // 256, 2 * 2048, 7168)
    assert forward["shared expert down"] == (4096, 7168, 2048)
    assert "mlp down" not in {name for name, _ in products("gemm-dense", "--model", "mixtral_8x7B_v0.1")}


def test_dimensions_change_a_model_and_a_label_names_them() -> None:
    """An option stands above the preset; a name that is no preset is a label where dimensions are given."""
    assert products("gemm-dense", "--model", "llama3.1_8B", "--vocab-size", "512")["output layer", "forward"].n == 512
    mine = products("gemm-dense", "--model", "Mine", "--hidden-size", "64", "--intermediate-size", "128")
    assert mine["mlp down", "forward"].n == 64


def test_sweeps() -> None:
    """Equal ratios or equal steps, with both ends."""
    assert sweep(1024, 16384, 5, "log2") == [1024, 2048, 4096, 8192, 16384]
    assert sweep(1024, 3072, 3, "linear") == [1024, 2048, 3072]
    assert sweep(1024, 4096, 1, "log2") == [4096]


def test_results_are_added_to_a_file_that_exists(tmp_path: Path) -> None:
    """Rows of two runs stand below one header; `--overwrite` replaces; Markdown has a table for each run."""
    for end, lines in ((".csv", 3), (".tsv", 3), (".jsonl", 2)):
        path = str(tmp_path / f"out{end}")
        for overwrite in (False, False):
            write_output(path, "rccl", "results", [ROW], overwrite=overwrite)
        assert len(Path(path).read_text().splitlines()) == lines
        write_output(path, "rccl", "results", [ROW], overwrite=True)
        assert len(Path(path).read_text().splitlines()) == lines - 1
    with (tmp_path / "out.tsv").open() as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert tuple(row) == columns_of("rccl", "results")
    assert (row["host"], row["bytes"], row["label"]) == ("n|1", "1024", "")
    assert json.loads((tmp_path / "out.jsonl").read_text()) == ROW
    for _ in range(2):
        write_output(str(tmp_path / "out.md"), "rccl", "results", [ROW], overwrite=False)
    text = (tmp_path / "out.md").read_text()
    assert text.count("## rccl on D of n\\|1, 2 ranks") == 2
    assert "| all_reduce | 1024 | bf16 | 1.5 |" in text


def test_figures_are_compared_with_what_is_specified_else_with_the_best() -> None:
    """A specified peak counts for all rows of its kind; without one, the best row of an operation is 100 %."""
    slow = {**ROW, "busbw_gbs": 0.5}
    assert [row["peak_percent"] for row in with_peaks([ROW, slow], "busbw_gbs", {}, "op")] == [100, 25]
    link = {"all_reduce": Peak(value=4.0, source="specified")}
    (row,) = with_peaks([slow], "busbw_gbs", link, "op")
    assert (row["peak_gbs"], row["peak_source"], row["peak_percent"]) == (4.0, "specified", 12.5)
    failed = {**ROW, "busbw_gbs": None}
    assert with_peaks([failed], "busbw_gbs", link, "op") == [failed]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gem"], "no suite"),
        (["gemm", "-M", "0"], "--M 0"),
        (["gemm", "--duration", "0"], "--duration 0"),
        (["gemm", "--dtype", "fp8", "--trans_a"], "--trans_a with --dtype fp8"),
        (["gemm", "--dtype", "fp8", "-M", "100"], "multiples of 16"),
        (["gemm", "--dtype", "fp8"], "--dtype fp8 on a CPU"),
        (["gemm", "--output-file", "report.txt"], "tells no format"),
        (["gemm", "--output-file", "not/there.md"], "no such folder"),
        (["gemm-dense", "--model", "llama9"], "there is no preset"),
        (["gemm-dense", "--model", "mamba_370M"], "layers without attention"),
        (["gemm-deepseek", "--hidden-size", "-1"], "--hidden-size -1"),
        (["attention", "--kernels", "flush"], "'flush'"),
        (["attention", "--seqlen", "1k"], "'1k'"),
        (["rccl"], "rccl with one rank"),
        (["rccl", "--min-bytes", "2M", "--max-bytes", "1M"], "below --min-bytes"),
        (["rccl", "--min-bytes", "big"], "'big' is no size"),
        (["rccl", "--nproc", "2", "--op", "all_reduce", "sum"], "sum"),
        (["rccl", "--nproc", "2", "--per-iter-trace", "--trace-ops", "broadcast"], "choose from all_reduce"),
        (["rccl", "--nproc", "2", "--sizes=1K,2K", "--per-iter-trace", "--trace-sizes=4K"], "choose from 1024, 2048"),
        (["strided-allgather", "--nproc", "4"], "a stride of 1, 2"),
        (["strided-allgather", "--sizes-mb", "0"], "no size in MB"),
    ],
)
def test_what_has_no_meaning_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments end with 2 and say what is wrong, before anything is started or written."""
    assert main(["benchmark", *words]) == 2
    assert said in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_a_file_with_other_columns_is_not_added_to(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of one suite are not put below the columns of another; `--overwrite` replaces the file."""
    Path("out.csv").write_text("a,b\n1,2\n")
    assert main(["benchmark", "gemm", "--output-file", "out.csv"]) == 2
    assert "other columns than gemm" in capsys.readouterr().err
    assert main(["benchmark", "gemm", "--output-file", "out.csv", "--overwrite", "--dry-run"]) == 0


def test_the_accelerator_of_other_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    """A login node that knows nothing of the nodes takes them for GPUs; the user may say that they are not."""
    for words, told in (((), "on cuda, 16 ranks"), (("--accelerator=cpu",), "on cpu, 2 ranks")):
        assert main(["--dry-run", "slurm", "srun", "-N2", "--", "benchmark", "rccl", *words]) == 0
        assert told in capsys.readouterr().out
    assert main(["--dry-run", "slurm", "srun", "-N2", "--", "benchmark", "gemm", "--dtype=fp8", *words]) == 2


def test_memory_is_not_learned_from_rates(capsys: pytest.CaptureFixture[str]) -> None:
    """A projection of memory takes no results of benchmarks, and says what it takes."""
    write_output("out.jsonl", "rccl", "results", [ROW], overwrite=False)
    assert main(["projection", "memory", "--config", str(EXAMPLE), "--calibrate", "out.jsonl"]) == 2
    assert "results of benchmarks have rates" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the command that writes the plan, with the suite's options, in the modes it was given in."""
    words = ["--nproc=2", "--", "benchmark", "rccl", "--op", "broadcast", "alltoall", "--check"]
    assert main(["--dry-run", "direct", *words]) == 0
    told = capsys.readouterr().out
    assert "primus benchmark rccl --op=broadcast --op=alltoall --check" in told
    assert "--nproc-per-node=2" in told
    assert list(Path().iterdir()) == []
