"""Each family of published models, made small, is the model that its preset describes once Megatron has built it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_backend_megatron import host
from primus_core import discovery
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.resolve import resolve
from tests.core.weights import parameter_count
from tests.megatron.experiments import plan_of
from tests.megatron.ranks import Ranks

SMALL: Mapping[str, Value] = {
    "num_layers": 2,
    "hidden_size": 32,
    "ffn_hidden_size": 48,
    "num_attention_heads": 4,
    "seq_length": 16,
    "max_position_embeddings": 64,
    "vocab_size": 128,
    "make_vocab_size_divisible_by": 8,
}
GROUPS: Mapping[str, Value] = {"num_query_groups": 2}
HEADS: Mapping[str, Value] = {**GROUPS, "kv_channels": 12}
EXPERTS: Mapping[str, Value] = {"num_experts": 4, "moe_router_topk": 2, "moe_ffn_hidden_size": 24}
SHARED: Mapping[str, Value] = {**EXPERTS, "moe_shared_expert_intermediate_size": 16, "moe_layer_freq": "([0]*1+[1]*1)"}
LATENT: Mapping[str, Value] = {
    "q_lora_rank": 16,
    "kv_lora_rank": 12,
    "qk_head_dim": 8,
    "qk_pos_emb_head_dim": 4,
    "v_head_dim": 6,
}
CHOSEN_GROUPS: Mapping[str, Value] = {"moe_router_num_groups": 2, "moe_router_group_topk": 1}
LLAMA4: Mapping[str, Value] = {**GROUPS, **SHARED, "num_layers": 4, "moe_router_topk": 1}

FAMILIES: Mapping[str, Mapping[str, Value]] = {
    "llama2_7B": {},
    "llama3.2_1B": GROUPS,
    "llama4_17B16E": {**LLAMA4, "moe_layer_freq": 1},
    "llama4_17B128E": {**LLAMA4, "moe_layer_freq": "([0]+[1])*2"},
    "qwen2.5_7B": GROUPS,
    "qwen3_30B_A3B": {**HEADS, **EXPERTS},
    "mixtral_8x7B_v0.1": {**GROUPS, "num_experts": 4},
    "deepseek_v2": {**LATENT, **SHARED, **CHOSEN_GROUPS},
    "deepseek_v3": {**LATENT, **SHARED, **CHOSEN_GROUPS, "mtp_num_layers": None},
    "glm5": {**LATENT, **SHARED, "mtp_num_layers": None},
    "glm4_7": {**HEADS, **SHARED, "mtp_num_layers": None},
}
"""What is made small beside SMALL. Of the families that a CPU can train: GPT-OSS and DeepSeek-V2-Lite need Transformer
Engine, the one for its sinks and windows, the other to normalize the keys where queries are not compressed."""


def preset(model: str, folder: Path) -> dict[str, Value]:
    """What a model's preset says."""
    (folder / "exp.yaml").write_text(
        "work_group: team\nuser_name: me\nexp_name: test\nworkspace: out\n"
        f"modules: {{pre_trainer: {{framework: megatron, config: pre_trainer.yaml, model: {model}.yaml}}}}\n"
    )
    plugins = discovery.scan()
    experiment = resolve(
        "exp.yaml",
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework),
        cwd=str(folder),
    )
    found = experiment.modules["pre_trainer"].params
    return {name: leaf.value for name, leaf in found.items() if leaf.origin.layer == "model"}


QUICK = ("llama4_17B128E", "deepseek_v3", "glm4_7")
"""Those that have most of what the others have."""


@pytest.mark.parametrize(
    "model", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in FAMILIES]
)
def test_megatron_builds_what_the_preset_says(model: str, ranks: Ranks, tmp_path: Path) -> None:
    """A family's model in small has the parameters that its sizes imply, and learns."""
    shape = {**preset(model, tmp_path), **SMALL, **FAMILIES[model]}
    training: dict[str, Value] = {"mock_data": True, "train_iters": 6, "micro_batch_size": 2, "lr": 1e-2}
    plan = plan_of({**shape, **training}, ranks=1)
    assert list(host.preflight_check(plan, Where.SUBMIT)) == []
    outcome = ranks.start(plan, tmp_path).check()
    built = re.findall(r"number of parameters on .* rank \([0, ]+\): (\d+)", outcome.texts[0])
    assert built == [str(parameter_count(shape))]
    losses = outcome.losses()
    assert losses[-1] < losses[0]
