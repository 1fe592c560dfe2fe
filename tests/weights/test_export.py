"""The export of checkpoints, as far as it needs no torch."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from primus_backend_megatron.weights import CODEC as MEGATRON
from primus_backend_torchtitan.weights import CODEC as TITAN
from primus_core.checkpoints.folders import LIBRARIES
from primus_core.checkpoints.torchfile import Tensor
from primus_core.cli.main import main
from primus_core.codec import to_json
from primus_core.errors import ConfigError, RunError
from primus_core.files import write_atomic
from primus_core.plan import RunPlan
from primus_core.rundir import RunDir
from primus_core.weights import huggingface
from primus_core.weights.architecture import Dense
from primus_core.weights.export import new_folder, shards_of, tokenizer_files, write_descriptions
from primus_core.weights.table import Codec
from tests.weights.folders import BOTH, begun, model_of, plan_of

STACKED = {
    "self_attention.linear_qkv.layer_norm_weight": (2, 64),
    "self_attention.linear_qkv.weight": (2, 128, 64),
    "self_attention.linear_proj.weight": (2, 64, 64),
    "mlp.linear_fc1.layer_norm_weight": (2, 64),
    "mlp.linear_fc1.weight": (2, 256, 64),
    "mlp.linear_fc2.weight": (2, 64, 128),
}
ENDS = {
    "embedding.word_embeddings.weight": (250, 64),
    "decoder.final_layernorm.weight": (64,),
    "output_layer.weight": (250, 64),
}


def megatron_tensors(dtype: str = "float32") -> dict[str, Tensor]:
    """What Megatron keeps of the small Llama: all layers' weights in one tensor."""
    shapes = {**{f"decoder.layers.{name}": shape for name, shape in STACKED.items()}, **ENDS}
    return {name: Tensor(shape, dtype) for name, shape in shapes.items()}


def started(framework: str, folder: Path, **params: object) -> RunPlan:
    """The plan of a run that has not trained, in its folder."""
    plan = plan_of(framework, begun("llama", Path("/nowhere"), **params), 1, folder, {})  # type: ignore[arg-type]  # values
    rundir = RunDir(Path(plan.run_dir))
    write_atomic(rundir.plan, to_json(plan))
    rundir.point_latest()
    return plan


def test_layers_of_one_tensor_and_of_many_are_found_alike() -> None:
    """Megatron keeps all layers in one tensor, or each in its own where they differ; and two names for norms."""
    model, together = model_of("llama"), megatron_tensors()
    apart = {name: tensor for name, tensor in together.items() if name in ENDS}
    for name, shape in STACKED.items():
        for number in range(2):
            apart[f"decoder.layers.{number}.{name}"] = Tensor(shape[1:], "float32")
    stacked, single = MEGATRON.kept(model, together), MEGATRON.kept(model, apart)
    assert [one.weight for one in stacked] == [one.weight for one in single]
    assert {one.layer for one in single} == {None}
    assert {one.layer for one in stacked} == {None, 0, 1}


@pytest.mark.parametrize("codec", [MEGATRON, TITAN], ids=BOTH)
@pytest.mark.parametrize("kind", ["llama", "llama tied", "qwen2", "qwen3"])
def test_each_tensor_of_hugging_face_comes_from_one_weight(codec: Codec, kind: str) -> None:
    """No tensor is left out, or written twice, whatever the model has."""
    model = model_of(kind)
    found = codec.kept(model, _Anything())
    names = [name for one in found for name in one.weight.parts]
    assert sorted(names) == sorted(huggingface.tensors(model))


class _Anything(dict[str, Tensor]):
    """A checkpoint that has every tensor."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self):  # type: ignore[no-untyped-def]  # one name is enough
        return iter(["decoder.layers.any"])


def test_a_lost_tensor_and_another_shape_are_told() -> None:
    """A checkpoint of another model than the run's is not exported."""
    model, tensors = model_of("llama"), megatron_tensors()
    del tensors["decoder.layers.mlp.linear_fc2.weight"]
    with pytest.raises(KeyError, match=r"mlp\.linear_fc2\.weight"):
        MEGATRON.kept(model, tensors)
    other = {**megatron_tensors(), "output_layer.weight": Tensor((256, 64), "float32")}
    with pytest.raises(RunError, match=r"output_layer\.weight is \[256, 64\] in the checkpoint and \[250, 64\]"):
        shards_of(MEGATRON.kept(model, other), other, model, None, 1 << 30)


def test_files_hold_no_more_than_was_asked() -> None:
    """Weights stay whole and in order; a weight that alone is larger has a file of its own."""
    model, tensors = model_of("llama"), megatron_tensors("bfloat16")
    kept = MEGATRON.kept(model, tensors)
    (one,) = shards_of(kept, tensors, model, None, 1 << 30)
    assert one.file == "model.safetensors"
    assert sum(part.bytes for part in one.parts) == 2 * sum(a * b for a, b in _matrices(model))
    several = shards_of(kept, tensors, model, "float32", 100_000)
    assert [shard.file for shard in several][-1] == f"model-{len(several):05d}-of-{len(several):05d}.safetensors"
    assert [part.kept for shard in several for part in shard.parts] == list(kept)
    assert all(sum(part.bytes for part in shard.parts) <= 100_000 for shard in several)
    assert len(shards_of(kept, tensors, model, None, 1)) == len(kept)


def _matrices(model: Dense) -> list[tuple[int, int]]:
    return [(shape[0], shape[1] if len(shape) > 1 else 1) for shape in huggingface.tensors(model).values()]


def test_descriptions_name_type_and_files(tmp_path: Path) -> None:
    """config.json with the special tokens, the index with each tensor's file, and the tokenizer's files."""
    model, tensors = model_of("llama"), megatron_tensors("bfloat16")
    shards = shards_of(MEGATRON.kept(model, tensors), tensors, model, None, 60_000)
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "weights.bin"):
        (tokenizer / name).write_text("{}")
    output = tmp_path / "output"
    output.mkdir()
    write_descriptions(output, model, shards, {"eos_token_id": 2}, str(tokenizer / "tokenizer.json"))
    config = json.loads((output / "config.json").read_text())
    assert (config["torch_dtype"], config["eos_token_id"], config["model_type"]) == ("bfloat16", 2, "llama")
    index = json.loads((output / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == huggingface.tensors(model).keys()
    assert index["metadata"]["total_size"] == sum(part.bytes for shard in shards for part in shard.parts)
    assert sorted(path.name for path in output.glob("tok*")) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_tokenizer_of_one_file_is_taken_alone(tmp_path: Path) -> None:
    """A file of any name, without its neighbours; nothing for one of the hub."""
    (tmp_path / "my.model").touch()
    (tmp_path / "vocab.json").touch()
    assert [path.name for path in tokenizer_files(str(tmp_path / "my.model"))] == ["my.model"]
    assert tokenizer_files("meta-llama/Llama-3.1-8B") == ()


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """What fails leaves nothing behind, and what is there stays as it is."""
    output = tmp_path / "made" / "output"
    with contextlib.suppress(RunError), new_folder(output) as folder:
        (folder / "half").write_text("half")
        raise RunError("no")
    assert list(output.parent.iterdir()) == []
    with new_folder(output) as folder:
        (folder / "whole").write_text("whole")
        assert not output.exists()
    assert [path.name for path in output.iterdir()] == ["whole"]
    with pytest.raises(ConfigError, match="exists"), new_folder(output):
        raise AssertionError("nothing may be written")
    assert [path.name for path in output.parent.iterdir()] == ["output"]


@pytest.mark.parametrize("framework", BOTH)
def test_an_export_that_cannot_be_is_one_screen(
    tmp_path: Path, framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No run, no checkpoint, another step, one that is damaged, an output that exists; and nothing is written."""
    plan = started(framework, tmp_path / "work", save_interval=2)
    experiment = Path(plan.run_dir).parent.parent
    output = tmp_path / "output"
    words = ["--to", "hf", "--output", str(output)]
    assert _said(capsys, "checkpoint", "export", str(tmp_path), *words) == "the folder is no run"
    assert _said(capsys, "checkpoint", "export", str(experiment), *words) == "there is no whole checkpoint"
    naming = LIBRARIES["Megatron" if framework == "megatron" else "TorchTitan"]
    naming.begin_saving(experiment / "checkpoints", 2)
    (naming.folder(experiment / "checkpoints", 2)).mkdir()
    naming.finish_saving(experiment / "checkpoints", 2, {"time": 1.0})
    said = _said(capsys, "checkpoint", "export", str(experiment), *words, "--step", "3")
    assert said == "there is no whole checkpoint of step 3"
    assert _said(capsys, "checkpoint", "export", str(experiment), *words, code=3) == "the checkpoint cannot be read"
    assert not output.exists()
    output.mkdir()
    assert _said(capsys, "checkpoint", "export", str(experiment), *words) == f"{output} exists"
    assert main(["checkpoint", "list", str(experiment)]) == 0
    assert capsys.readouterr().out.split()[0] == "2"


def test_an_experiment_that_moved_still_has_its_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are looked for beside the run where the folder of the plan is gone."""
    plan = started("torchtitan", tmp_path / "work", save_interval=2)
    experiment = Path(plan.run_dir).parent.parent
    naming = LIBRARIES["TorchTitan"]
    naming.folder(experiment / "checkpoints", 2).mkdir(parents=True)
    naming.finish_saving(experiment / "checkpoints", 2, {"time": 1.0})
    experiment.rename(tmp_path / "moved")
    assert main(["checkpoint", "list", str(tmp_path / "moved")]) == 0
    assert str(tmp_path / "moved/checkpoints/step-2") in capsys.readouterr().out


def test_a_mixture_of_experts_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The parameter that makes it one is named."""
    plan = started("megatron", tmp_path / "work", save_interval=2, num_experts=4, moe_ffn_hidden_size=64)
    assert main(["checkpoint", "export", plan.run_dir, "--to", "hf", "--output", str(tmp_path / "out")]) == 2
    assert "num_experts: 4" in capsys.readouterr().err


def _said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """The first line of the screen, without what every screen begins with."""
    assert main(list(words)) == code
    return capsys.readouterr().err.splitlines()[0].removeprefix("error: ")


def test_the_command_is_light() -> None:
    """Codecs import no torch: `primus checkpoint` starts as fast as any command."""
    code = (
        "import sys, primus_core.cli.checkpoint, primus_backend_megatron.weights, primus_backend_torchtitan.weights\n"
        "print(sorted({'torch', 'numpy', 'megatron', 'torchtitan', 'safetensors'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
