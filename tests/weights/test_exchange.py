"""Weights of a Hugging Face folder go into both back ends and come out again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from primus_core.cli.main import main
from primus_core.codec import to_json
from primus_core.experiment import Value
from primus_core.files import write_atomic
from primus_core.rundir import RunDir
from tests.forked.ranks import Outcome, Ranks
from tests.megatron.ranks import Ranks as MegatronRanks
from tests.torchtitan.ranks import Ranks as TitanRanks
from tests.weights.folders import BOTH, FROZEN, KINDS, Params, begun, plan_of, read_tensors, write_folder

LOGITS = 1e-5
"""Largest difference of logits, relative to the largest logit."""


class Judge:
    """`transformers`, in a process of its own; it takes long to import."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("judge.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "started\n"

    def difference(self, folder: Path, logits: Path) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{folder}\t{logits}\n")
        self._process.stdin.flush()
        largest, scale, _ = self._process.stdout.readline().split()
        return float(largest) / float(scale)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@frozen
class Backend:
    """One back end, and the process that forks its ranks."""

    name: str
    ranks: Ranks

    def train(
        self, folder: Path, params: Params, *, world: int = 1, kill: str | None = None, **settings: Value
    ) -> Outcome:
        """Train; what the run leaves behind is below ``folder``. Rank 0 dies when it reports what ``kill`` matches."""
        plan = plan_of(self.name, params, world, folder / "work", settings)
        rundir = RunDir(Path(plan.run_dir))
        write_atomic(rundir.plan, to_json(plan))
        rundir.point_latest()
        prepared = {"logits": {"file": str(folder / "logits")}}
        entry = f"tests.weights.entries:{self.name}" if world == 1 else f"primus_backend_{self.name}.rank.train:run"
        return self.ranks.start(plan, folder, entry=entry, prepared=prepared, kill=kill)


@pytest.fixture
def backend(request: pytest.FixtureRequest, ranks: MegatronRanks, titan_ranks: TitanRanks) -> Backend:
    return Backend(name=request.param, ranks=ranks if request.param == "megatron" else titan_ranks)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    started = Judge()
    yield started
    started.close()


def experiment_folder(folder: Path) -> Path:
    return folder / "work/team/me/exp"


def export(folder: Path, output: Path, *options: str) -> Path:
    words = ["checkpoint", "export", str(experiment_folder(folder)), "--to", "hf", "--output", str(output), *options]
    assert main(words) == 0
    return output


SOON = {("torchtitan", "llama")}
"""What is tried in every run of the tests; the others take their time in `make test-cluster`."""


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        pytest.param(name, kind, marks=[] if (name, kind) in SOON else [pytest.mark.slow])
        for name in BOTH
        for kind in KINDS
    ],
    indirect=["backend"],
)
def test_transformers_computes_the_logits_of_an_export(
    backend: Backend, judge: Judge, tmp_path: Path, kind: str
) -> None:
    """Two steps from a folder's weights, exported: `transformers` gives the logits that the third step began with."""
    weights = write_folder(tmp_path / "hf", kind)
    backend.train(tmp_path, begun(kind, weights, save_interval=2, **own(backend))).check()
    exported = export(tmp_path, tmp_path / "exported", "--step", "2")
    changed = read_tensors(exported)
    assert changed.keys() == read_tensors(weights).keys()
    assert all((changed[name] != tensor).any() for name, tensor in read_tensors(weights).items())
    assert judge.difference(exported, tmp_path / "logits") < LOGITS
    assert judge.difference(weights, tmp_path / "logits") > 1000 * LOGITS


def own(backend: Backend) -> Params:
    """The loss by chunks of the sequence computes no logits of the whole."""
    return {"loss.kind": "cross_entropy"} if backend.name == "torchtitan" else {}


LAYOUTS: dict[str, tuple[str, Params]] = {
    "megatron tensor": ("megatron", {"tensor_model_parallel_size": 2}),
    "megatron pipeline": ("megatron", {"pipeline_model_parallel_size": 2}),
    "torchtitan fsdp": ("torchtitan", {}),
    "torchtitan tensor": ("torchtitan", {"tensor_model_parallel_size": 2}),
}
"""Two ranks each."""
SOON_DIVIDED = ("megatron tensor",)


@pytest.mark.parametrize(
    ("backend", "layout", "kind"),
    [
        pytest.param(name, layout, kind, marks=[] if kind == "qwen2" and layout in SOON_DIVIDED else [pytest.mark.slow])
        for layout, (name, _) in LAYOUTS.items()
        for kind in ("qwen2", "qwen3")
        if (layout, kind) != ("megatron pipeline", "qwen2")
    ],
    indirect=["backend"],
)
def test_weights_that_nothing_changes_come_out_bit_for_bit(
    backend: Backend, tmp_path: Path, layout: str, kind: str
) -> None:
    """A folder of three files, divided among two ranks and exported, is the same; so is the loss of one process."""
    weights = write_folder(tmp_path / "hf", kind, shards=3)
    still = begun(kind, weights, train_iters=1, **FROZEN)
    alone = backend.train(tmp_path / "alone", still).check().losses()
    divided = backend.train(tmp_path / "two", {**still, **LAYOUTS[layout][1], "save_interval": 1}, world=2).check()
    assert divided.losses() == pytest.approx(alone, rel=1e-6)
    exported = read_tensors(export(tmp_path / "two", tmp_path / "exported", "--shard-size", "0.0001"))
    assert len(list((tmp_path / "exported").glob("*.safetensors"))) > 1
    given = read_tensors(weights)
    assert exported.keys() == given.keys()
    assert all((exported[name] == given[name]).all() for name in given)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BOTH, indirect=True)
def test_a_run_goes_on_from_its_own_checkpoint(backend: Backend, tmp_path: Path) -> None:
    """A run that began from a folder, and was cut off after two iterations, gives the losses of one that was not."""
    weights = write_folder(tmp_path / "hf", "llama")
    saving = begun("llama", weights, save_interval=2, train_iters=4, save=str(tmp_path / "checkpoints"))
    whole = backend.train(tmp_path / "whole", begun("llama", weights, train_iters=4)).check().losses()
    backend.train(tmp_path / "first", saving, kill='"iteration": 3,')
    resumed = backend.train(tmp_path / "second", saving, auto_continue_train=True).check()
    assert resumed.losses() == whole[2:]
