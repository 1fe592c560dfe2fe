"""What a run would read is looked at before anything starts: paths, steps, layout, optimizer and weights."""

from __future__ import annotations

import builtins
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from primus_backend_megatron import host
from primus_backend_megatron.checkpoints import NAMING, TRACKER
from primus_backend_megatron.host.names import PATHS_READ
from primus_core.checkpoints.folders import MARKER
from primus_core.experiment import Value
from primus_core.outcome import Where
from tests.malice import Evil
from tests.megatron.experiments import HOST, MOCK, plan_of, translate
from tests.megatron.ranks import LLAMA, Ranks
from tests.starting import Starting

MODEL: dict[str, Value] = {**LLAMA, "override_opt_param_scheduler": True}

STARTING = Starting(host=HOST, naming=NAMING, tracker=TRACKER)
look, one, line, save = STARTING.look, STARTING.one, STARTING.line, STARTING.save


# Paths


@pytest.mark.parametrize("name", sorted({*PATHS_READ} - {"load_hf"}))  # it is checked with the model's weights
def test_a_path_that_does_not_exist(name: str, tmp_path: Path) -> None:
    """What would be missed minutes later, in every rank, is told with its line; translating it looks at nothing."""
    params: dict[str, Value] = {**MOCK, name: str(tmp_path / "nope")}
    finding = one(params)
    assert finding.severity == "error"
    assert str(tmp_path / "nope") in finding.summary
    assert finding.where == line(params, name)


def test_translation_touches_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither translation nor the checks before it asks the file system for anything that the experiment names."""
    touched: list[str] = []

    def spy(function: Any) -> Any:
        def watched(path: Any = ".", *rest: Any, **options: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and str(tmp_path) in os.fspath(path):
                touched.append(os.fspath(path))
            return function(path, *rest, **options)

        return watched

    params: dict[str, Value] = {**MOCK, **{name: str(tmp_path / name) for name in PATHS_READ}}
    params |= {"save": str(tmp_path / "save"), "save_interval": 1, "auto_continue_train": True}
    for name in ("stat", "lstat", "listdir", "scandir", "open", "access"):
        monkeypatch.setattr(os, name, spy(getattr(os, name)))
    monkeypatch.setattr(builtins, "open", spy(builtins.open))
    plan = plan_of(params)
    host.preflight_check(plan, Where.SUBMIT)
    assert touched == []
    host.preflight_check(plan, Where.FILES)
    assert touched  # the spy sees what is looked at


# Which checkpoint


def test_a_mistyped_folder(tmp_path: Path) -> None:
    """The nearest name beside it is offered."""
    save(tmp_path / "checkpoints", 10)
    params: dict[str, Value] = {**MOCK, "load": str(tmp_path / "chekpoints")}
    finding = one(params)
    assert finding.summary == f"there is no whole checkpoint in {tmp_path}/chekpoints"
    assert "the folder does not exist" in finding.evidence
    assert f"Did you mean {tmp_path}/checkpoints?" in finding.remedy
    assert finding.where == line(params, "load")


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    """It is an error, never a silent random start; a file in its place too."""
    (tmp_path / "empty").mkdir()
    assert "neither a marker" in one({**MOCK, "load": str(tmp_path / "empty")}).evidence
    (tmp_path / "file").touch()
    assert "it is no folder" in one({**MOCK, "load": str(tmp_path / "file")}).evidence


def test_a_folder_above_or_below_the_right_one(tmp_path: Path) -> None:
    """One checkpoint instead of their folder, and the experiment's folder instead of its checkpoints."""
    save(tmp_path / "exp/checkpoints", 10, 20)
    below = one({**MOCK, "load": str(tmp_path / "exp/checkpoints/iter_0000010")})
    assert f"Name the folder above it, {tmp_path}/exp/checkpoints, and set load_step to 10" in below.remedy
    above = one({**MOCK, "load": str(tmp_path / "exp")})
    assert f"Did you mean {tmp_path}/exp/checkpoints?" in above.remedy


def test_checkpoints_of_torchtitan(tmp_path: Path) -> None:
    """They are told as such, with the way to take their weights."""
    (tmp_path / "step-100").mkdir()
    finding = one({**MOCK, "load": str(tmp_path)})
    assert "it holds checkpoints of TorchTitan, which Megatron cannot read: 100" in finding.evidence
    assert "primus checkpoint export" in finding.remedy
    assert "load_hf" in finding.remedy


@pytest.mark.parametrize("step", [7, 0])
def test_a_step_that_does_not_exist(step: int, tmp_path: Path) -> None:
    """The steps that do are listed, at the line of load_step. Megatron itself would take 0 for the newest."""
    save(tmp_path, 10, 20)
    NAMING.begin_saving(tmp_path, 30)
    NAMING.folder(tmp_path, 30).mkdir()
    params: dict[str, Value] = {**MOCK, "load": str(tmp_path), "load_step": step}
    finding = one(params)
    assert finding.summary == f"there is no whole checkpoint of iteration {step} in {tmp_path}"
    assert "whole checkpoints: 10, 20\n" in finding.evidence
    assert f"load_step: {step} ({line(params, 'load_step')})" in finding.evidence
    assert finding.where == line(params, "load_step")


def test_a_step_of_others_checkpoints_that_does_not_exist(tmp_path: Path) -> None:
    """Of a folder without markers all steps are listed."""
    for step in (5, 1000):
        NAMING.folder(tmp_path, step).mkdir()
    (tmp_path / TRACKER).write_text("1000")
    assert "checkpoints: 5, 1000\n" in one({**MOCK, "load": str(tmp_path), "load_step": 6}).evidence


def test_a_step_of_nothing() -> None:
    """load_step without load would be read by nobody."""
    assert one({**MOCK, "load_step": 7}).summary == "load_step is set and load is not"


@pytest.mark.parametrize("load", [None, "same"])
def test_continuing_an_empty_folder_starts_afresh(load: str | None, tmp_path: Path) -> None:
    """A run that continues itself may find nothing the first time, also where it says that it loads what it saves."""
    params: dict[str, Value] = {**MOCK, "save": str(tmp_path), "save_interval": 1, "auto_continue_train": True}
    assert look(params if load is None else {**params, "load": str(tmp_path)}) == []
    other = {**params, "load": str(tmp_path / "base")}
    assert "there is no whole checkpoint" in one(other).summary


def test_a_continued_run_may_have_lost_what_it_started_from(tmp_path: Path, saved: Path) -> None:
    """With a checkpoint of its own a run no longer reads `load`; it does when it is not to be continued."""
    own = tmp_path / "own"
    shutil.copytree(saved / "plain/checkpoints", own)
    params: dict[str, Value] = {**MODEL, "save": str(own), "save_interval": 1, "load": "/nope"}
    assert look({**params, "auto_continue_train": True}) == []
    assert "in /nope" in one(params).summary


def test_no_random_start_in_spite_of_a_checkpoint(tmp_path: Path) -> None:
    """Megatron's own switch against it is on whenever a run was given a checkpoint."""
    native = translate({**MOCK, "load": str(tmp_path), "exit_on_missing_checkpoint": False}).native
    assert native["exit_on_missing_checkpoint"] is True
    assert "exit_on_missing_checkpoint" not in translate(MOCK).native


# Real checkpoints


SAVED: dict[str, dict[str, Value]] = {
    "plain": {},
    "distributed": {"use_distributed_optimizer": True},
    "legacy": {"ckpt_format": "torch", "tensor_model_parallel_size": 2},
}


@pytest.fixture(scope="module")
def saved(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of iteration 2 that Megatron wrote, by how."""
    folder = tmp_path_factory.mktemp("saved")
    for name, native in SAVED.items():
        where: dict[str, Value] = {"save": str(folder / name / "checkpoints"), "save_interval": 2, "train_iters": 2}
        ranks.run(folder / name, {**native, **where}).check()
    return folder


@pytest.fixture(params=["ours", "foreign"])
def kind(request: pytest.FixtureRequest) -> str:
    """With our sidecar, and without, as Megatron alone leaves a checkpoint."""
    return str(request.param)


@pytest.fixture
def checkpoints(saved: Path, kind: str, tmp_path: Path) -> Path:
    """The saved folders of this kind."""
    if kind == "ours":
        return saved
    shutil.copytree(saved, tmp_path / "foreign")
    for marker in (tmp_path / "foreign").glob(f"*/checkpoints/*/{MARKER}"):
        marker.unlink()
    return tmp_path / "foreign"


TP2: dict[str, Value] = {"tensor_model_parallel_size": 2}
PP2: dict[str, Value] = {"pipeline_model_parallel_size": 2}
DISTRIBUTED: dict[str, Value] = {"use_distributed_optimizer": True}

FITS: dict[str, tuple[str, dict[str, Value]]] = {
    "as it was": ("plain", {}),
    "tensor parallel": ("plain", TP2),
    "pipeline": ("plain", PP2),
    "one rank fewer": ("distributed", DISTRIBUTED),
    "weights alone, other optimizer": ("distributed", {**TP2, "no_load_optim": True}),
    "finetune, other layout": ("distributed", {**TP2, **DISTRIBUTED, "finetune": True}),
    "padding of another layout": ("plain", {"make_vocab_size_divisible_by": 8}),
    "files for each rank": ("legacy", TP2),
}


@pytest.mark.parametrize("name", FITS)
def test_a_checkpoint_that_fits(name: str, checkpoints: Path) -> None:
    """Layouts that Megatron reshards, and changes that do not matter, pass without a word."""
    which, params = FITS[name]
    assert look({**MODEL, **params, "load": str(checkpoints / which / "checkpoints")}, ranks=2) == []


MISFITS: dict[str, tuple[str, dict[str, Value], list[str]]] = {
    "distributed optimizer, other layout": (
        "distributed",
        {**TP2, **DISTRIBUTED},
        ["cannot be divided anew", "tensor_model_parallel_size is 2 here and 1 in the checkpoint", "no_load_optim"],
    ),
    "distributed optimizer to a plain one": ("distributed", {}, ["use_distributed_optimizer: true"]),
    "plain optimizer to a distributed one": ("plain", DISTRIBUTED, ["use_distributed_optimizer: false"]),
    "files for other ranks": ("legacy", {}, ["another layout", "set tensor_model_parallel_size: 2"]),
    "more layers": ("plain", {"num_layers": 4}, ["[2, 64, 64] in the checkpoint and [4, 64, 64]", "num_layers: 2"]),
    "fewer layers, finetune": ("plain", {"num_layers": 1, "finetune": True}, ["set num_layers: 2"]),
    "wider": ("plain", {"hidden_size": 128}, ["embedding.word_embeddings.weight is [256, 64]", "hidden_size: 64"]),
    "narrower feed-forward": (
        "plain",
        {"ffn_hidden_size": 64},
        ["decoder.layers.mlp.linear_fc1.weight is [2, 256, 64] in the checkpoint and [2, 128, 64] in the model"],
    ),
    "no gate": ("plain", {"swiglu": False}, ["linear_fc1.weight is [2, 256, 64] in the checkpoint and [2, 128, 64]"]),
    "other query groups": ("plain", {"num_query_groups": 1}, ["linear_qkv.weight is [2, 128, 64]", "[2, 96, 64]"]),
    "other heads of the same width": (
        "plain",
        {"num_attention_heads": 8, "num_query_groups": 4},
        ["4 attention heads", "set num_attention_heads: 4"],
    ),
    "larger vocabulary": ("plain", {"vocab_size": 600}, ["vocabulary of 250", "[256, 64]", "without a word"]),
    "smaller vocabulary": ("plain", {"vocab_size": 100}, ["vocabulary of 250", "set vocab_size: 250"]),
    "tied": (
        "plain",
        {"untie_embeddings_and_output_weights": False},
        ["output_layer.weight", "drop it without a word"],
    ),
    "biases": ("plain", {"add_bias_linear": True}, ["self_attention.linear_proj.bias", "add_bias_linear"]),
    "other norm": ("plain", {"normalization": "LayerNorm"}, ["decoder.final_layernorm.bias", "normalization"]),
    "experts": ("plain", {"num_experts": 4, "moe_router_topk": 2}, ["mlp.router.weight", "num_experts"]),
    "files, wider": ("legacy", {**TP2, "ffn_hidden_size": 64}, ["mlp.linear_fc1.weight is [128, 64]", "[64, 64]"]),
    "files, larger vocabulary": ("legacy", {**TP2, "vocab_size": 600}, ["vocabulary of 250", "[256, 64]"]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_checkpoint_that_does_not_fit(name: str, checkpoints: Path) -> None:
    """What differs is told, with both sides and what to set, at the line that names the checkpoint."""
    which, changes, fragments = MISFITS[name]
    params: dict[str, Value] = {**MODEL, **changes, "load": str(checkpoints / which / "checkpoints")}
    finding = look(params, ranks=2)[0]
    told = f"{finding.summary}\n{finding.evidence}\n{finding.remedy}"
    for fragment in fragments:
        assert fragment in told
    assert finding.severity == "error"
    assert finding.where == line(params, "load")


AGREED = ("distributed optimizer, other layout", "files for other ranks", "tied")


@pytest.mark.parametrize("name", AGREED)
def test_megatron_does_what_the_check_says(name: str, ranks: Ranks, saved: Path, tmp_path: Path) -> None:
    """Misfits end the ranks, or, as the finding warns, are loaded in silence as another model."""
    which, changes, _ = MISFITS[name]
    outcome = ranks.run(tmp_path, {**MODEL, **changes, "train_iters": 3, "load": str(saved / which / "checkpoints")})
    if name == "tied":
        again = ranks.run(tmp_path / "right", {**MODEL, "train_iters": 3, "load": str(saved / "plain/checkpoints")})
        assert abs(outcome.check().losses()[0] - again.check().losses()[0]) > 0.1
    else:
        assert set(outcome.codes) - {0}


@pytest.mark.parametrize("name", ["tensor parallel", "padding of another layout"])
def test_megatron_loads_what_the_check_passes(name: str, ranks: Ranks, saved: Path, tmp_path: Path) -> None:
    """The loss goes on from where it was."""
    which, changes = FITS[name]
    native = {**MODEL, **changes, "train_iters": 3, "load": str(saved / which / "checkpoints")}
    outcome = ranks.run(tmp_path, native).check()
    assert [row["iteration"] for row in outcome.rows()] == [3]


# Damage and malice


@pytest.fixture
def foreign(saved: Path, tmp_path: Path) -> Iterator[Path]:
    """A checkpoint of others, to be damaged."""
    shutil.copytree(saved / "plain/checkpoints", tmp_path / "foreign")
    (tmp_path / "foreign/iter_0000002" / MARKER).unlink()
    yield tmp_path / "foreign"
    assert not (tmp_path / "canary").exists()


def test_malicious_metadata(foreign: Path, tmp_path: Path) -> None:
    """It is refused with the name that it would call, and calls nothing."""
    (foreign / "iter_0000002/.metadata").write_bytes(pickle.dumps(Evil(tmp_path / "canary")))
    finding = one({**MODEL, "load": str(foreign)}, ranks=2)
    assert finding.summary == f"{foreign}/iter_0000002 is not safe to load"
    assert f"`{os.system.__module__}.system`" in finding.evidence


@pytest.mark.parametrize("name", ["common.pt", "mp_rank_00/model_optim_rng.pt"])
def test_malicious_state(name: str, foreign: Path, tmp_path: Path) -> None:
    """So is the state that older versions of Megatron keep in a file of its own."""
    path = foreign / "iter_0000002" / name
    path.parent.mkdir(exist_ok=True)
    if "mp_rank" in name:
        (foreign / "iter_0000002/.metadata").unlink()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"args": Evil(tmp_path / "canary")}, 2))
    assert "is not safe to load" in one({**MODEL, "load": str(foreign)}, ranks=2).summary


@pytest.mark.parametrize("name", ["", "iter_0000002", "iter_0000002/primus.json"])
def test_a_checkpoint_that_may_not_be_read(name: str, saved: Path) -> None:
    """A folder or file that belongs to somebody else is told as such, not by a traceback."""
    place, own = Path(tempfile.mkdtemp()), os.geteuid()
    try:
        place.chmod(0o755)
        shutil.copytree(saved / "plain/checkpoints", place / "copy")
        (place / "copy" / name).chmod(0)
        os.seteuid(65534 if own == 0 else own)
        finding = one({**MODEL, "load": str(place / "copy")}, ranks=2)
    finally:
        os.seteuid(own)
        (place / "copy" / name).chmod(0o755)
        shutil.rmtree(place)
    assert "Permission denied" in finding.evidence
    assert str(place / "copy") in finding.summary + finding.evidence


def test_metadata_cut_short(foreign: Path) -> None:
    """Damage is told as such."""
    metadata = foreign / "iter_0000002/.metadata"
    metadata.write_bytes(metadata.read_bytes()[:-100])
    assert "cannot be read" in one({**MODEL, "load": str(foreign)}, ranks=2).summary


@pytest.mark.parametrize("at", [0, -1])
def test_a_lost_file(at: int, checkpoints: Path, tmp_path: Path) -> None:
    """A file which was not copied is told before the ranks look for it."""
    shutil.copytree(checkpoints / "plain/checkpoints", tmp_path / "copy")
    lost = sorted((tmp_path / "copy/iter_0000002").glob("*.distcp"))[at]
    lost.unlink()
    finding = one({**MODEL, "load": str(tmp_path / "copy")}, ranks=2)
    assert finding.summary.endswith("is not whole")
    assert lost.name in finding.evidence


def test_a_file_cut_short(foreign: Path) -> None:
    """So is one whose end is missing, wherever the rest of it is sound."""
    cut = sorted((foreign / "iter_0000002").glob("*.distcp"))[-1]
    os.truncate(cut, cut.stat().st_size - 10)
    finding = one({**MODEL, "load": str(foreign)}, ranks=2)
    assert f"1 of its files missing or cut short: {cut.name}" in finding.evidence


def test_a_lost_rank(saved: Path, tmp_path: Path) -> None:
    """Of the old format each rank's folder has to be there."""
    shutil.copytree(saved / "legacy/checkpoints", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/iter_0000002/mp_rank_01")
    finding = one({**MODEL, **TP2, "load": str(tmp_path / "copy")}, ranks=2)
    assert "missing or cut short: mp_rank_01/model_optim_rng.pt" in finding.evidence


def test_a_format_of_sharded_models(foreign: Path) -> None:
    """It is refused by a run of another format, and left to Megatron by one that saves as such."""
    (foreign / "iter_0000002/metadata.json").unlink()
    params: dict[str, Value] = {**MODEL, "load": str(foreign)}
    assert "has the format torch_dcp" in one(params, ranks=2).summary
    assert look({**params, "ckpt_format": "fsdp_dtensor", "use_megatron_fsdp": True}, ranks=2) == []


def test_metadata_that_is_too_large_to_look_at(foreign: Path) -> None:
    """Not checked is a warning that says so, not an error."""
    (foreign / "iter_0000002/.metadata").write_bytes(bytes(17 << 20))
    finding = one({**MODEL, "load": str(foreign)}, ranks=2)
    assert (finding.severity, finding.summary.endswith("is not checked before the start")) == ("warning", True)


def test_no_torch_is_imported() -> None:
    """The host's check reads real checkpoints of torch without importing it: none of its modules does."""
    code = "import sys, primus_backend_megatron.host.starting.checkpoint as _; "
    code += "print({'torch', 'megatron', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
