"""The patch plan, and what each kind of patch does in a real rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from primus_backend_megatron import patch_plan
from primus_core.plan import Accelerator, Target
from tests.megatron.ranks import Ranks

FINGERPRINTS = json.loads(Path(patch_plan.__file__).with_name("patch_fingerprints.json").read_text())


def planned(accelerator: Accelerator) -> tuple[Any, ...]:
    return patch_plan.plan_patches(Target(accelerator=accelerator, library_version="0.19.2", ranks_per_node=1))


def probe(ranks: Ranks, folder: Path, name: str, world: int = 1, **native: Any) -> list[dict[str, Any]]:
    """The results of one of the entries of `probes`, by rank."""
    outcome = ranks.run(folder, native, world=world, entry=f"tests.megatron.probes:{name}").check()
    return [dict(outcome.result(rank)) for rank in range(world)]


def test_every_planned_patch_is_applied_to_the_installed_libraries(ranks: Ranks) -> None:
    """Factories exist, versions fit, sources are the known ones, and all replacements are still in place."""
    assert ranks.ready["ready"] == [spec.id for spec in planned("cpu")]


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
        {"same": True, "repeated": True, "forked": True, "loader": True}
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
    """Megatron frees activations whose send is on its way; and it splits by tensors, which gloo refuses."""
    first, second = probe(ranks, tmp_path, "exchanges", world=2)
    assert first == {"_p2p_ops": [4.0], "_batched_p2p_ops": [4.0], "all to all": [10.0, 11.0]}
    assert second == {"_p2p_ops": [3.0], "_batched_p2p_ops": [3.0], "all to all": [20.0, 21.0]}
