"""The patch plan, and what each kind of patch does in a real rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from primus_backend_megatron import patch_plan
from primus_core.experiment import Value
from primus_core.plan import Accelerator, PatchSpec
from tests.megatron.experiments import MOCK, target_of, translate
from tests.megatron.ranks import Ranks, all_patches, make_plan, with_defaults

_OPTIMIZER = {"optimizer-state-before-loading", "optimizer-own-step-counts", "optimizer-restore-states"}
FINGERPRINTS = json.loads(Path(patch_plan.__file__).with_name("patch_fingerprints.json").read_text())


def planned(accelerator: Accelerator) -> tuple[PatchSpec, ...]:
    """Everything that may be planned there."""
    return patch_plan.plan_patches(target_of(accelerator))


def plan_of(native: dict[str, Value]) -> tuple[PatchSpec, ...]:
    """What is planned for these parameters on a CPU."""
    return patch_plan.plan_patches(target_of(), with_defaults(native))


def probe(ranks: Ranks, folder: Path, name: str, world: int = 1) -> list[Any]:
    """The results of one of the entries of `probes`, by rank, with every patch that there is."""
    plan = make_plan(folder=folder, world=world, patches=all_patches())
    outcome = ranks.start(plan, folder, entry=f"tests.megatron.probes:{name}").check()
    return [outcome.result(rank) for rank in range(world)]


def test_every_planned_patch_is_applied_to_the_installed_libraries(ranks: Ranks) -> None:
    """Factories exist, versions fit, sources are the known ones, and all replacements are still in place."""
    assert ranks.applied == [spec.id for spec in planned("cpu")]


def test_each_patch_is_explained_and_known(ranks: Ranks) -> None:
    """Unique ids and targets, one sentence of reason, a version range, and a fingerprint for all but new names."""
    specs = planned("cpu")
    assert len({spec.id for spec in specs}) == len({spec.target for spec in specs}) == len(specs)
    for spec in specs:
        assert spec.reason.endswith("."), spec.id
        assert spec.requires or spec.target.partition(":")[0] in {"sys", "typing"}, spec.id
        assert bool(spec.fingerprint) == (spec.id != "typing-override"), spec.id
    assert set(FINGERPRINTS) == {spec.target for spec in specs if spec.fingerprint}


@pytest.mark.parametrize("accelerator", ["cuda", "rocm"])
def test_a_gpu_gets_none_of_the_cpus_patches(accelerator: Accelerator) -> None:
    """There torch and Megatron stay as they are, but for metrics, checkpoints and faults that every platform has."""
    ids = {spec.id for spec in planned(accelerator)}
    assert ids == {spec.id for spec in planned("cpu") if not spec.when}
    assert {"metrics", "checkpoint-marker", "optimizer-own-step-counts"} < ids
    assert not [name for name in ids if name.startswith("cpu-")]


def test_typing_is_patched_only_where_it_lacks_the_name() -> None:
    """Python 3.12 has `typing.override`."""
    assert {spec.id: spec.python for spec in planned("cuda") if spec.python} == {"typing-override": "<3.12"}


def test_cuda_is_answered_by_the_cpu_but_not_claimed(ranks: Ranks, tmp_path: Path) -> None:
    """Tensors for "cuda" are made on the CPU, torch's own redirection still works, and no GPU is pretended."""
    assert probe(ranks, tmp_path, "devices") == [
        {
            "available": False,
            "made": True,
            "pinned": False,
            "meta": "meta",
            "moved": "cpu",
            "type": "torch.cuda.FloatTensor",
            "cast": "torch.bfloat16",
            "compiled": True,
        }
    ]


def test_random_states_of_the_device_are_the_cpus(ranks: Ranks, tmp_path: Path) -> None:
    """Seeding, saving, restoring and forking work, and starting a data loader draws nothing."""
    assert probe(ranks, tmp_path, "random_numbers") == [
        {"same": True, "repeated": True, "kept": True, "forked": True, "warnings": "", "loader": True}
    ]


def test_what_cannot_be_built_here_is_not_needed(ranks: Ranks, tmp_path: Path) -> None:
    """Triton's kernels can be imported and say that they are missing; compiled helpers are not compiled again."""
    (result,) = probe(ranks, tmp_path, "stubs")
    assert result == {"block": 1024, "error": "moe_paged_stash needs Triton, which is not installed"}


def test_attention_is_megatrons(ranks: Ranks, tmp_path: Path) -> None:
    """Outputs and gradients equal Megatron's own attention, with grouped queries, causal and masked by documents."""
    (result,) = probe(ranks, tmp_path, "attention")
    assert result.pop("kind") == "SdpaAttention"
    assert result == {"causal": pytest.approx(0, abs=1e-5), "documents": pytest.approx(0, abs=1e-5)}


def test_norms_are_marked_for_sequence_parallelism(ranks: Ranks, tmp_path: Path) -> None:
    """Megatron sums the gradients of marked parameters over tensor-parallel ranks."""
    (result,) = probe(ranks, tmp_path, "norms")
    assert result == {"kind": "RMSNorm", "eps": 0.5, "marked": [True], "plain": [False]}


def test_what_is_sent_is_what_was_there_when_it_was_sent(ranks: Ranks, tmp_path: Path) -> None:
    """Megatron frees activations whose send is on its way."""
    assert probe(ranks, tmp_path, "sends", world=2)[1] == [3.0]


def test_what_ranks_gather_may_differ_in_length(ranks: Ranks, tmp_path: Path) -> None:
    """Ranks that share experts gather as many tokens as each of them was sent."""
    assert probe(ranks, tmp_path, "gathers", world=2) == [[1.0, 2.0, 2.0]] * 2


PLAIN: dict[str, Value] = {"num_layers": 4, "vocab_size": 1000, "save": None, "eval_iters": 0}
"""Parameters of a run that needs nothing special."""

CONDITIONS: dict[str, tuple[dict[str, Value], set[str]]] = {
    "pipeline": ({"pipeline_model_parallel_size": 2}, {"cpu-send"}),
    "sequence parallelism": ({"sequence_parallel": True}, {"cpu-norm"}),
    "experts": ({"num_experts": 4}, {"cpu-all-to-all", "cpu-all-gather"}),
    "evaluation": ({"eval_iters": 1}, {"evaluation-loss", "evaluation-notice"}),
    "saving": ({"save": "checkpoints"}, {"checkpoint-marker", "checkpoint-queue"}),
    "saving in the background": ({"async_save": True}, {"checkpoint-marker-async"}),
    "deletion": ({"save_retain_interval": 4}, {"checkpoint-keep"}),
    "loading together": ({"ckpt_fully_parallel_load": True}, {"cpu-empty", "cpu-empty-like"}),
    "distributed optimizer": ({"use_distributed_optimizer": True}, _OPTIMIZER),
    "FSDP": ({"use_megatron_fsdp": True}, _OPTIMIZER),
}


@pytest.mark.parametrize("feature", CONDITIONS)
def test_a_patch_that_one_feature_needs_is_planned_with_it_only(feature: str) -> None:
    """A plain run carries no patch of a feature that it does not use; the plan says which parameter asked for it."""
    native, ids = CONDITIONS[feature]
    plain = {spec.id for spec in plan_of(PLAIN)}
    gained = [spec for spec in plan_of({**PLAIN, **native}) if spec.id not in plain]
    assert {spec.id for spec in gained} == ids
    assert all(any(name in spec.condition for name in native) for spec in gained)


def test_every_condition_is_tried_above() -> None:
    """What is not planned for a plain run is planned for one of the features, and no other patch names a condition."""
    conditional = {spec.id for spec in planned("cpu")} - {spec.id for spec in plan_of(PLAIN)}
    assert conditional == set().union(*(ids for _, ids in CONDITIONS.values()))
    assert conditional == {spec.id for spec in planned("cpu") if spec.condition}


def test_parameters_that_a_checkpoint_will_set_may_need_anything() -> None:
    """With use_checkpoint_args the layout is known in the ranks only: everything is planned."""
    assert plan_of({**PLAIN, "use_checkpoint_args": True}) == planned("cpu")


def test_the_translation_decides_what_is_planned() -> None:
    """The host plans by the parameters as they are after its adjustments: a default folder for checkpoints is one."""
    ids = {spec.id for spec in translate({**MOCK, "num_experts": 4, "save_interval": 5}).patches}
    assert {"cpu-all-to-all", "checkpoint-marker"} < ids
    assert not {"cpu-send", "optimizer-own-step-counts", "checkpoint-keep"} & ids
