"""`primus projection memory`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from primus_core.cli.main import main
from tests.core.projecting import EXAMPLES, MI300X, check, needs_reference, project, projected_or_refused


@pytest.mark.parametrize("file", ["llama-tiny.yaml", "torchtitan/llama-tiny.yaml", "qwen3-moe-tiny.yaml"])
def test_examples_are_projected(capsys: pytest.CaptureFixture[str], file: str) -> None:
    """The examples of both back ends have figures that add up, and fit on any device."""
    answer = project(capsys, EXAMPLES / file, "--gpu", "mi250x")
    check(answer)
    assert answer["fits"] is not False


def test_text_and_page_tell_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The terminal has a table of stages, the verdict and the unverified margin; the page has them and a chart."""
    page = tmp_path / "page.html"
    words = ["--config", str(EXAMPLES / "llama-tiny.yaml"), "--gpu", "MI300X", "--html", str(page)]
    assert main(["projection", "memory", *words, "pipeline_model_parallel_size=2", "--gpus", "4"]) == 0
    text, html = capsys.readouterr().out, page.read_text(encoding="utf-8")
    for told in ("Its weights, by component", "optimizer state", "unverified", "192.0 GiB"):
        assert told in text
        assert told in html
    assert "<svg" in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_a_folder_is_no_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A page that cannot be written is told by the name that the user gave, with what to do; nothing is left behind."""
    words = ["projection", "memory", "--config", str(EXAMPLES / "llama-tiny.yaml"), "--html"]
    assert main([*words, str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"--html '{tmp_path}' is no file to write" in told
    assert f"--html {tmp_path}/memory.html" in told
    (tmp_path / "file").touch()
    assert main([*words, str(tmp_path / "file/page.html")]) == 3
    told = capsys.readouterr().err
    assert f"{tmp_path}/file/page.html" in told
    assert "name a file in a folder that you may write to" in told
    assert ".tmp" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_modes_reach_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Behind a mode the ranks are those that the mode's options ask for, or as many as the layout needs."""
    words = ["projection", "memory", "--config", str(EXAMPLES / "llama-tiny.yaml"), "--format", "json"]
    device = ["accelerator=cuda", "micro_batch_size=1"]
    assert main(["slurm", "srun", "-N", "2", "--gpus-per-node=4", "--", *words, *device]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["nodes"], answer["ranks"]) == (2, 8)
    large = ["pipeline_model_parallel_size=2", "tensor_model_parallel_size=8", "num_attention_heads=8"]
    for mode in ("direct", "container", "slurm"):
        capsys.readouterr()
        assert main([mode, "--", *words, *device, *large, "num_query_groups=8"]) == 0
        assert json.loads(capsys.readouterr().out)["ranks"] == 16


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["performance"], "no projection of performance"),
        (["memory", "--gpu", "mi300"], "did you mean mi300x?"),
        (["memory", "--gpus", "0"], "--gpus 0"),
        (["memory", "--gpus", "12", "--nproc", "8"], "no whole number of nodes"),
        (["memory", "--calibrate", "nowhere"], "no such run"),
        (["memory", "--gpuz", "8"], "did you mean --gpu?"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    """A wrong option ends with exit code 2 and says what is wrong."""
    monkeypatch.chdir(tmp_path)
    assert main(["projection", *words, "--config", str(EXAMPLES / "llama-tiny.yaml")]) == 2
    assert told in capsys.readouterr().err


def test_the_layout_is_told_without_groups_that_mean_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Context parallel ranks read no samples of their own; a dense model has no groups of experts."""
    file = EXAMPLES / "megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
    assert project(capsys, file, "--gpus", "16", "context_parallel_size=2")["groups"] == {"context": 2, "data": 8}


def test_an_illegal_layout_is_refused_as_by_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The same error, word for word."""
    file, words = str(EXAMPLES / "llama-tiny.yaml"), ["tensor_model_parallel_size=3", "--nproc", "3"]
    assert main(["run", file, "--dry-run", *words]) == 2
    error = capsys.readouterr().err
    assert main(["projection", "memory", "--config", file, *words]) == 2
    assert capsys.readouterr().err == error


def test_too_little_memory_is_told_with_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    """A model that is too large for its device gets changes, and one of them makes it fit."""
    file = EXAMPLES / "megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
    answer = project(capsys, file, "--gpu", "a100", "--gpus", "8")
    check(answer)
    assert answer["fits"] is False
    assert any(change["fits"] for change in answer["changes"])
    assert all(change["saved"] > 0 for change in answer["changes"])


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("llama-tiny.yaml", {"recompute_granularity", "recompute_method"}),
        ("torchtitan/llama-tiny.yaml", {"activation_checkpoint.kind", "parallelism.enable_sequence_parallel"}),
    ],
)
def test_what_saves_memory_is_told_in_the_words_of_the_back_end(
    capsys: pytest.CaptureFixture[str], file: str, own: set[str]
) -> None:
    """A small model on far too long sequences is advised what its back end can do, each with its effect."""
    sizes = ["seq_length=262144", "max_position_embeddings=262144", "num_layers=16", "hidden_size=1024"]
    layout = ["accelerator=cuda", "tensor_model_parallel_size=2", *_OWN.get(file, ())]
    answer = project(capsys, EXAMPLES / file, *sizes, *layout, "--gpu", "mi250x", "--gpus", "2")
    assert answer["fits"] is False
    assert own <= {name for change in answer["changes"] for name in change["settings"]}


_OWN = {"torchtitan/llama-tiny.yaml": ("parallelism.enable_sequence_parallel=false",)}
"""What is on unless it is turned off."""


@needs_reference
def test_tensor_parallelism_changes_weights_and_optimizer(capsys: pytest.CaptureFixture[str]) -> None:
    """Two tensor ranks have half of the weights each and, where replicas do not divide it, of the optimizer's state."""
    words = ("--gpus", "8", "use_distributed_optimizer=false", "overlap_param_gather=false")
    one, two = (
        project(capsys, MI300X / "llama3.1_8B-BF16-pretrain.yaml", *words, f"tensor_model_parallel_size={size}")
        for size in (1, 2)
    )
    for name in ("weights", "moments", "main_weights"):
        assert two["stages"][0][name] == pytest.approx(one["stages"][0][name] / 2, rel=0.001)


def test_every_example_is_projected(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does any of the project's own; most are projected, with changes that help on a device that is too small."""
    files = [file for file in sorted(EXAMPLES.glob("megatron/configs/*/*.yaml")) if not file.stem.startswith("base")]
    assert len(files) > 40
    found = [projected_or_refused(capsys, file, "--gpu", "mi250x") for file in files]
    assert sum(not isinstance(one, str) for one in found) > len(files) // 2


@pytest.mark.parametrize("file", ["llama-tiny.yaml", "torchtitan/llama-tiny.yaml", "qwen3-moe-tiny.yaml"])
def test_any_layout_is_projected_or_refused(capsys: pytest.CaptureFixture[str], file: str) -> None:
    """Whatever sizes a command line asks for, there are figures that add up, or a refusal."""
    draw = Random(5)
    found = []
    for _ in range(60):
        sizes = {name: draw.choice(values) for name, values in _SIZES.items() if draw.random() < 0.5}
        words = [f"{name}={value}" for name, value in sizes.items()]
        words += ["--gpus", draw.choice(["1", "8", "64"])]
        found.append(isinstance(projected_or_refused(capsys, EXAMPLES / file, *words), str))
    assert {True, False} == set(found)


_SIZES = {
    "tensor_model_parallel_size": (1, 2, 3, 4),
    "pipeline_model_parallel_size": (1, 2, 4),
    "context_parallel_size": (1, 2),
    "expert_model_parallel_size": (1, 2, 4),
    "micro_batch_size": (0, 1, 2, 7),
    "global_batch_size": (1, 8, 64, 1000),
    "num_layers": (1, 2, 4, 7),
    "seq_length": (1, 33, 256),
    "num_attention_heads": (1, 4, 5),
    "vocab_size": (7, 1000),
    "bf16": ("true", "false"),
    "recompute_granularity": ("full", "selective"),
    "optimizer": ("adam", "sgd"),
}


BUSY = ("projection", "memory", "--config", str(EXAMPLES / "qwen3-moe-tiny.yaml"), "--moe-load-factor")


def test_busy_experts(capsys: pytest.CaptureFixture[str]) -> None:
    """A rank whose experts get more tokens than others needs more, and the assumption is told."""
    file, words = EXAMPLES / "qwen3-moe-tiny.yaml", ("--gpus", "2", "expert_model_parallel_size=2")
    even = project(capsys, file, *words)
    busy = project(capsys, file, *words, "--moe-load-factor", "1.5")
    check(busy)
    assert busy["stages"][0]["activations"] > even["stages"][0]["activations"]
    assert busy["stages"][0]["weights"] == even["stages"][0]["weights"]
    assert any("1.5 times as many tokens" in one for one in busy["assumptions"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("0.5",), "give 1 or more"),
        (("nan",), "give 1 or more"),
        (("2", "expert_model_parallel_size=1"), "changes nothing"),
        (("2.5", "expert_model_parallel_size=2", "--gpus", "2"), "give 2 or less"),
    ],
)
def test_a_load_that_cannot_be(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Less than an equal share, more than all, and any where no rank gets tokens of others, are refused with words."""
    assert main([*BUSY, *words]) == 2
    assert told in capsys.readouterr().err


def test_operations_are_told_by_their_convention(capsys: pytest.CaptureFixture[str]) -> None:
    """A token, an iteration and a GPU, needed and run: all layers recomputed run a third more, and the text says so."""
    words = ["--gpus", "2", "recompute_granularity=full", "recompute_method=uniform", "recompute_num_layers=1"]
    plain, told = (project(capsys, EXAMPLES / "llama-tiny.yaml", *more) for more in (["--gpus", "2"], words))
    assert told["attention"] == "half"
    for name in ("model", "hardware"):
        of_token, iteration = told[f"{name}_flops_per_token"], told[f"{name}_flops_per_iteration"]
        assert iteration == pytest.approx(told[f"{name}_flops_per_gpu"] * 2)
        tokens = told["micro_batch_tokens"] * told["micro_batches"] * 2
        assert iteration == pytest.approx(of_token * tokens)
    assert told["model_flops_per_token"] == plain["model_flops_per_token"]
    assert 1.15 < told["hardware_flops_per_token"] / plain["hardware_flops_per_token"] < 1.34
    assert main(["projection", "memory", "--config", str(EXAMPLES / "llama-tiny.yaml"), *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    needed, ran = (told[f"{name}_flops_per_token"] / 1e9 for name in ("model", "hardware"))
    assert f"needs {needed:,.4g} GFLOP a token: forward and backward, of causal attention the half" in text
    assert f"{ran:,.4g} run, with what is recomputed or repeated" in text


def test_help_lists_options_that_change_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Options of a run that only matter where it starts are taken, as modes give them, and not listed."""
    with pytest.raises(SystemExit):
        main(["projection", "memory", "--help"])
    told = capsys.readouterr().out
    assert all(f"{name} " in told for name in ("--gpus", "--nproc", "--hosts", "--strict", "--preset-path"))
    silent = ("--numa", "--silent", "--dry-run", "--patch", "--log_file", "--run-id", "preflight", "patch-drift")
    assert not any(name in told for name in silent)
    words = ["projection", "memory", "--config", str(EXAMPLES / "llama-tiny.yaml")]
    assert main(["direct", "--numa", "--", *words, "--skip-preflight"]) == 0
