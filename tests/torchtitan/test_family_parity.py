"""Models of each family: the same weights give the same losses with both back ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.experiment import Value
from tests.megatron import experiments as megatron
from tests.megatron.ranks import Ranks as MegatronRanks
from tests.torchtitan.experiments import MOCK
from tests.torchtitan.families import BIASED, DEEPSEEK, MIXTURE, NORMALIZED
from tests.torchtitan.family_weights import write_weights
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.test_parity import GRAD_NORM, LOSS, difference, from_folder

STEPS, ROWS = 6, 256
TRAINING: dict[str, Value] = {
    **MOCK,
    "make_vocab_size_divisible_by": ROWS,
    "rotary_base": 10000,
    "layernorm_epsilon": 1e-5,
    "train_iters": STEPS,
    "lr": 3e-3,
    "lr_warmup_iters": 2,
    "weight_decay": 0.1,
    "adam_beta2": 0.95,
    "clip_grad": 1.0,
    "bf16": False,
}
MODELS = {"dense": {**BIASED, **NORMALIZED}, "mixture": MIXTURE, "deepseek": DEEPSEEK}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_both_back_ends_train_a_family_alike(
    titan_ranks: Ranks, ranks: MegatronRanks, tmp_path: Path, name: str
) -> None:
    """Biases, normalized heads, latent attention, YaRN, routing, groups, and all ways to balance experts are one."""
    params = {**TRAINING, **MODELS[name]}
    weights = write_weights(tmp_path / "hf", params, ROWS)
    theirs = ranks.start(
        megatron.plan_of(params, workspace=str(tmp_path / "megatron")),
        tmp_path / "megatron",
        entry="tests.torchtitan.family_weights:megatron",
        prepared={"weights": {"folder": str(weights)}},
    ).check()
    ours = titan_ranks.run(tmp_path / "torchtitan", {**params, **from_folder(weights)}, world=1).check()
    assert len(ours.rows()) == STEPS
    assert difference(ours.rows(), theirs.rows(), "loss") < LOSS
    assert difference(ours.rows(), theirs.rows(), "grad_norm") < GRAD_NORM
