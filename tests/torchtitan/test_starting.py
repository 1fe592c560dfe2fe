"""The checkpoint that a run would start from is looked at before anything starts, as with Megatron."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from primus_backend_torchtitan.checkpoints import NAMING, TITAN
from primus_core.checkpoints.choosing import fresh_start
from primus_core.checkpoints.folders import MARKER
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from tests.malice import Evil
from tests.starting import Starting
from tests.torchtitan.experiments import HOST, MOCK, plan_of
from tests.torchtitan.families import FAMILIES
from tests.torchtitan.ranks import Ranks

STARTING = Starting(host=HOST, naming=NAMING, params=MOCK)
look, one, line, save = STARTING.look, STARTING.one, STARTING.line, STARTING.save


# Which checkpoint


def test_a_mistyped_folder(tmp_path: Path) -> None:
    """The nearest name beside it is offered."""
    save(tmp_path / "checkpoints", 10)
    params: dict[str, Value] = {"load": str(tmp_path / "chekpoints")}
    finding = one(params)
    assert finding.summary == f"there is no whole checkpoint in {tmp_path}/chekpoints"
    assert "the folder does not exist" in finding.evidence
    assert f"Did you mean {tmp_path}/checkpoints?" in finding.remedy
    assert finding.where == line(params, "load")


@pytest.mark.parametrize("step", [7, 0, 30])
def test_a_step_that_does_not_exist(step: int, tmp_path: Path) -> None:
    """The steps that do are listed, at the line of load_step; one that was interrupted is none of them."""
    save(tmp_path, 10, 20)
    NAMING.begin_saving(tmp_path, 30)
    NAMING.folder(tmp_path, 30).mkdir()
    params: dict[str, Value] = {"load": str(tmp_path), "load_step": step}
    finding = one(params)
    assert finding.summary == f"there is no whole checkpoint of iteration {step} in {tmp_path}"
    assert "whole checkpoints: 10, 20\n" in finding.evidence
    assert f"load_step: {step} ({line(params, 'load_step')})" in finding.evidence
    assert finding.where == line(params, "load_step")


def test_a_step_of_nothing() -> None:
    """load_step without load would be read by nobody."""
    assert one({"load_step": 7}).summary == "load_step is set and load is not"


@pytest.mark.parametrize("within", ["", "iter_0000050"])
def test_checkpoints_of_megatron(within: str, tmp_path: Path) -> None:
    """They are told as such, with the way to take their weights."""
    for step in (50, 100):
        (tmp_path / f"iter_{step:07d}").mkdir()
    finding = one({"load": str(tmp_path / within)})
    assert "it holds checkpoints of Megatron, which TorchTitan cannot read: 50" in finding.evidence
    assert "primus checkpoint export" in finding.remedy
    assert "load_hf" in finding.remedy


def test_a_folder_of_hugging_face(tmp_path: Path) -> None:
    """It is named by another parameter."""
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).touch()
    assert "Name it with load_hf" in one({"load": str(tmp_path)}).remedy


@pytest.mark.parametrize("load", [None, "same"])
def test_continuing_an_empty_folder_starts_afresh(load: str | None, tmp_path: Path) -> None:
    """A run that continues itself may find nothing the first time, also where it says that it loads what it saves."""
    params: dict[str, Value] = {"save": str(tmp_path), "save_interval": 1, "auto_continue_train": True}
    assert look(params if load is None else {**params, "load": str(tmp_path)}) == []
    assert "there is no whole checkpoint" in one({**params, "load": str(tmp_path / "base")}).summary


def test_a_folder_that_both_back_ends_save_to(tmp_path: Path) -> None:
    """Each continues its own; a run that has none says whose it leaves alone."""
    (tmp_path / "iter_0000100").mkdir()
    told = fresh_start(TITAN, str(tmp_path), auto_continue=True)
    assert told.endswith("has no checkpoint to continue from; those of Megatron are not continued")
    save(tmp_path, 10)
    assert "continues an earlier run from iteration 10" in fresh_start(TITAN, str(tmp_path), auto_continue=False)


# Real checkpoints


@pytest.fixture(scope="module")
def saved(titan_ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a checkpoint of iteration 1 that two ranks wrote."""
    folder = tmp_path_factory.mktemp("saved")
    params: dict[str, Value] = {"save": str(folder / "checkpoints"), "save_interval": 1, "train_iters": 1}
    titan_ranks.run(folder, params).check()
    return folder / "checkpoints"


@pytest.fixture(params=["ours", "foreign"])
def checkpoints(request: pytest.FixtureRequest, saved: Path, tmp_path: Path) -> Path:
    """With our sidecar, and without, as TorchTitan alone leaves a checkpoint."""
    if request.param == "ours":
        return saved
    shutil.copytree(saved, tmp_path / "foreign")
    (tmp_path / "foreign/step-1" / MARKER).unlink()
    return tmp_path / "foreign"


@pytest.mark.parametrize(
    "params", [{}, {"tensor_model_parallel_size": 2}, {"pipeline_model_parallel_size": 2}, {"lr": 1.0}]
)
def test_a_checkpoint_that_fits(params: dict[str, Value], checkpoints: Path) -> None:
    """Any layout, and changes that do not matter, pass without a word."""
    assert look({**params, "load": str(checkpoints)}, ranks=2) == []


MISFITS: dict[str, tuple[dict[str, Value], list[str]]] = {
    "more layers": ({"num_layers": 4}, ["2 layers, this one has 4", "set num_layers: 2"]),
    "wider": ({"hidden_size": 128}, ["tok_embeddings.weight is [256, 64]", "[256, 128]", "set hidden_size: 64"]),
    "narrower feed-forward": (
        {"ffn_hidden_size": 64},
        ["layers.0.feed_forward.w1.weight is [128, 64] in the checkpoint and [64, 64] in the model"],
    ),
    "other query groups": ({"num_query_groups": 1}, ["wk.weight is [32, 64]", "[16, 64]", "num_query_groups: 1"]),
    "larger vocabulary": ({"vocab_size": 600}, ["tok_embeddings.weight is [256, 64]", "[640, 64]", "600"]),
    "other padding": ({"make_vocab_size_divisible_by": 512}, ["[512, 64]", "set padded_vocab_size: 256"]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_checkpoint_that_does_not_fit(name: str, checkpoints: Path) -> None:
    """What differs is told, with both sides and what to set, at the line that names the checkpoint."""
    changes, fragments = MISFITS[name]
    params: dict[str, Value] = {**changes, "load": str(checkpoints)}
    finding = look(params)[0]
    told = f"{finding.summary}\n{finding.evidence}\n{finding.remedy}"
    for fragment in fragments:
        assert fragment in told
    assert finding.severity == "error"
    assert finding.where == line(params, "load")


def test_other_heads_of_the_same_width(saved: Path) -> None:
    """What no shape tells, our sidecar does."""
    params: dict[str, Value] = {"num_attention_heads": 8, "num_query_groups": 4, "load": str(saved)}
    assert "4 attention heads, this one has 8" in one(params).summary


def test_a_lost_file(checkpoints: Path, tmp_path: Path) -> None:
    """A file which was not copied is told before the ranks look for it."""
    shutil.copytree(checkpoints, tmp_path / "copy")
    lost = sorted((tmp_path / "copy/step-1").glob("*.distcp"))[-1]
    lost.unlink()
    finding = one({"load": str(tmp_path / "copy")})
    assert finding.summary.endswith("is not whole")
    assert lost.name in finding.evidence


OTHERS: dict[str, dict[str, Value]] = {
    **FAMILIES,
    "tied": {"untie_embeddings_and_output_weights": False},
    "separate projections": {"model.fuse_qkv": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_every_family_fits_its_model(name: str, titan_ranks: Ranks, tmp_path: Path) -> None:
    """By the names that TorchTitan gives their weights; and where a part of the model is another, it does not."""
    params: dict[str, Value] = {**OTHERS[name], "save": str(tmp_path / "checkpoints"), "save_interval": 1}
    titan_ranks.run(tmp_path, {**params, "train_iters": 1}, world=1).check()
    load: dict[str, Value] = {"load": str(tmp_path / "checkpoints")}
    assert look({**OTHERS[name], **load}) == []
    (tmp_path / "checkpoints/step-1" / MARKER).unlink()
    assert look({**OTHERS[name], **load}) == []
    if name in FAMILIES:
        assert {finding.check for finding in look(load)} == {"torchtitan.checkpoint-model"}


def test_malicious_metadata(saved: Path, tmp_path: Path) -> None:
    """It is refused with the name that it would call, and calls nothing."""
    shutil.copytree(saved, tmp_path / "foreign")
    (tmp_path / "foreign/step-1" / MARKER).unlink()
    (tmp_path / "foreign/step-1/.metadata").write_bytes(pickle.dumps(Evil(tmp_path / "canary")))
    finding = one({"load": str(tmp_path / "foreign")})
    assert finding.summary == f"{tmp_path}/foreign/step-1 is not safe to load"
    assert not (tmp_path / "canary").exists()


# Saving


def test_a_folder_without_an_interval(tmp_path: Path) -> None:
    """Nothing would ever be saved to it: an error, as with Megatron."""
    with pytest.raises(ConfigError, match="save_interval"):
        plan_of({**MOCK, "save": str(tmp_path)})


def test_loading_alone_saves_nothing(tmp_path: Path) -> None:
    """A run that was given a checkpoint and no interval writes none, and one with an interval deletes none."""
    native = plan_of({**MOCK, "load": str(tmp_path)}).translation
    assert native
    assert native.native["checkpoint.load_only"] is True
    saving = plan_of({**MOCK, "save_interval": 2}).translation
    assert saving
    assert saving.native["checkpoint.keep_latest_k"] == 0
    assert "checkpoint.load_only" not in saving.native


@pytest.mark.parametrize("name", ["save", "load"])
def test_object_storage_is_refused(name: str) -> None:
    """There is no telling whole checkpoints in it."""
    with pytest.raises(ConfigError, match="is object storage: s3://bucket/x") as caught:
        plan_of({**MOCK, name: "s3://bucket/x", "save_interval": 2})
    assert line({name: ""}, name) in str(caught.value.where)


def test_one_checkpoint_cannot_be_kept_alone() -> None:
    """While the next one is written there would be none."""
    with pytest.raises(ConfigError, match="keep_latest_k"):
        plan_of({**MOCK, "save_interval": 2, "checkpoint.keep_latest_k": 1})


def test_no_torch_is_imported() -> None:
    """The host's check reads real checkpoints of torch without importing it: none of its modules does."""
    code = "import sys, primus_backend_torchtitan.host.starting.checkpoint as _; "
    code += "print({'torch', 'torchtitan', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
