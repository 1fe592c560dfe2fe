"""The experiments that users bring: refused with the words of a run, or projected with their published size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from primus_core import discovery
from primus_core.cli.main import main
from tests.core.projecting import EXAMPLES, MI300X, REFERENCE, needs_reference, project, projected_or_refused
from tests.core.published import PUBLISHED

TOTALS = {
    "llama3.1_8B-BF16-pretrain.yaml": 8_030_261_248,
    "llama3.1_70B-BF16-pretrain.yaml": 70_553_706_496,
    "mixtral_8x7B_v0.1-BF16-pretrain.yaml": 46_702_792_704,
}
DEEPSEEK = MI300X / "deepseek_v3-BF16-pretrain.yaml"
NOT_TOLD = [MI300X / f"qwen3_5_35B_A3B-{precision}-pretrain.yaml" for precision in ("BF16", "FP8")]
"""What Megatron trains and projection does not know."""
FILES = sorted({*REFERENCE.glob("*/*/*.yaml")}.difference(NOT_TOLD))
NAMES = {"deepseek_v3_671b": "deepseek_v3", "deepseek_v3_236b": "deepseek_v2", "deepseek_v3_16b": "deepseek_v2_lite"}
"""Published models under another name."""
ORDINARY_ATTENTION = ("deepseek_v2", "deepseek_v2_lite", "deepseek_v3")
"""Models whose latent attention the experiments for Megatron switch off."""
NO_DATA = ("mock_data=true", "train_data_path=null")
"""Data are not here, or are data sets of TorchTitan's, which Primus has not."""


@pytest.fixture
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every package that an experiment of either back end needs is here."""
    there = discovery.installed_version
    for module in ("primus_backend_torchtitan.host.packages", "primus_backend_megatron.host.foreign"):
        monkeypatch.setattr(f"{module}.installed_version", lambda name: there(name) or "99")


def on_slurm(nodes: int, per_node: int, *words: str) -> int:
    """The exit code of a command behind a mode."""
    return main(["slurm", "srun", "-N", str(nodes), f"--gpus-per-node={per_node}", "--", *words])


@needs_reference
@pytest.mark.usefixtures("everything_installed")
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_every_reference_experiment_is_projected_or_refused(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Figures that add up, of a run that would start, with the published size; or the words of the run's refusal."""
    found = projected_or_refused(capsys, file, *NO_DATA)
    if isinstance(found, str):
        code = on_slurm(1, 8, "projection", "memory", "--config", str(file), *NO_DATA)
        refused = capsys.readouterr().err
        assert on_slurm(1, 8, "run", str(file), "--dry-run", *NO_DATA) == code
        assert capsys.readouterr().err == refused
    else:
        nodes, ranks = found["nodes"], found["ranks"]
        assert on_slurm(nodes, ranks // nodes, "run", str(file), "--dry-run", *NO_DATA) == 0
        check_size(file, found)


@needs_reference
@pytest.mark.usefixtures("everything_installed")
@pytest.mark.parametrize("file", NOT_TOLD, ids=lambda file: file.stem)
def test_layers_that_are_not_known_are_refused(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Of gated delta networks, which Megatron trains, no figures are made up."""
    assert on_slurm(1, 8, "run", str(file), "--dry-run") == 0
    capsys.readouterr()
    assert main(["projection", "memory", "--config", str(file)]) == 2
    told = capsys.readouterr().err
    assert "cannot be projected: it has layers of the kind gated_delta_net" in told
    assert "qwen3_5_35B_A3B.yaml:11" in told


def is_titan(file: Path) -> bool:
    return "torchtitan" in file.parts


def check_size(file: Path, found: Mapping[str, Any]) -> None:
    """It is the published one, or the attention is another and that is told."""
    name = re.sub("(-BF16|-FP8)?-pretrain$", "", file.stem)
    name = NAMES.get(name, name)
    other = any("multi_latent_attention: false" in one for one in found["assumptions"])
    assert other == (not is_titan(file) and name in ORDINARY_ATTENTION)
    assert name in PUBLISHED
    assert other or found["parameters"] == pytest.approx(PUBLISHED[name] * 1e9, rel=0.01)


@needs_reference
@pytest.mark.parametrize(
    ("model", "asks"),
    [
        ("megatron/MI300X/mamba_370M-pretrain", "hybrid_layer_pattern"),
        ("megatron/MI300X/zebra_llama_1B-pretrain", "is_hybrid_model"),
        ("megatron/MI300X/grok2-BF16-pretrain", "router_logit_softcapping"),
        ("torchtitan/MI300X/llama4_17Bx16E-BF16-pretrain", "no_rope_freq"),
    ],
)
def test_what_cannot_be_built_is_refused_as_by_a_run(capsys: pytest.CaptureFixture[str], model: str, asks: str) -> None:
    """The same words and the same exit code, which is not that of a wrong experiment."""
    file, words = str(REFERENCE / f"{model}.yaml"), (*NO_DATA, "global_batch_size=null")
    assert on_slurm(4, 8, "run", file, "--dry-run", *words) == 1
    error = capsys.readouterr().err
    assert asks in error
    assert on_slurm(4, 8, "projection", "memory", "--config", file, *words) == 1
    assert capsys.readouterr().err == error


def test_a_package_that_is_missing_here_hinders_no_projection(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run needs DeepEP for its dispatcher; the figures do not."""
    there = discovery.installed_version
    monkeypatch.setattr(
        "primus_backend_torchtitan.host.packages.installed_version",
        lambda name: None if name == "deep_ep" else there(name),
    )
    file = EXAMPLES / "qwen3-moe-tiny.yaml"
    words = [
        "framework=torchtitan",
        "accelerator=cuda",
        "model.expert_dispatcher=deepep",
        "expert_model_parallel_size=2",
        "--nproc",
        "2",
    ]
    assert main(["run", str(file), "--dry-run", *words]) == 1
    assert "deep_ep is missing" in capsys.readouterr().err
    assert project(capsys, file, *words)["parameters"] > 0


@needs_reference
@pytest.mark.parametrize("name", TOTALS)
def test_published_models_have_their_size(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Experiments that users bring have the number of parameters that the model is known for."""
    assert project(capsys, MI300X / name)["parameters"] == TOTALS[name]


@needs_reference
def test_deepseek_as_it_is_has_ordinary_attention_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The file switches latent attention off: 17 billion parameters more than published, and a sentence about it."""
    without, told = project(capsys, DEEPSEEK), "multi_latent_attention=true"
    (note,) = (one for one in without["assumptions"] if told in one)
    assert f"{DEEPSEEK.name}:" in note
    assert without["parameters"] == 688_268_357_888
    latent = project(capsys, DEEPSEEK, told)
    assert not any("latent" in one for one in latent["assumptions"])
    assert latent["parameters"] == 671_026_404_352


@needs_reference
def test_experts_are_divided_among_expert_parallel_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    """Of DeepSeek-V3, four times as many ranks hold a quarter of the experts each."""
    words = ["multi_latent_attention=true", "--gpus", "32"]
    eight = project(capsys, DEEPSEEK, *words)
    more = project(capsys, DEEPSEEK, *words, "expert_model_parallel_size=32")
    experts = 58 * 256 * 3 * 7168 * 2048
    assert eight["stages"][0]["parameters"] - more["stages"][0]["parameters"] == experts // 8 - experts // 32


@pytest.mark.parametrize(
    ("layout", "heaviest"),
    [("Et|tt|tt|tttL", 3), ("Et|tt|ttt|ttL", 2), ("Et|ttt|tt|ttL", 1), ("Ettt|tt|tt|tL", 0)],
)
def test_the_stage_with_most_layers_is_the_heaviest(
    capsys: pytest.CaptureFixture[str], layout: str, heaviest: int
) -> None:
    """Of stages with 1, 2, 2 and 3 layers, in any order, the one with three is told."""
    words = ["pipeline_model_parallel_size=4", "num_layers=8", f"pipeline_model_parallel_layout={layout}"]
    words += ["hidden_size=1024", "ffn_hidden_size=4096", "seq_length=64", "--gpus", "4"]
    answer = project(capsys, EXAMPLES / "llama-tiny.yaml", *words)
    assert answer["heaviest"] == heaviest
    layers = [stage.count("t") for stage in layout.split("|")]
    parameters = [stage["parameters"] for stage in answer["stages"]]
    assert layers[heaviest] == 3
    assert parameters[heaviest] == max(parameters)
    assert main(["projection", "memory", "--config", str(EXAMPLES / "llama-tiny.yaml"), *words]) == 0
    assert f"The rank of stage {heaviest} is the heaviest" in capsys.readouterr().out
