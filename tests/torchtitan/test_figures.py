"""Figures that mean the same as Megatron's."""

from __future__ import annotations

import ast
from argparse import Namespace
from collections.abc import Callable
from importlib.metadata import files
from typing import Any

import pytest

from primus_backend_megatron.host.shape import shape_of_plan as megatron_shape
from primus_backend_torchtitan.host.shape import shape_of_plan as torchtitan_shape
from primus_core.experiment import Value
from primus_core.projection.flops import flops_of
from tests.megatron import experiments as megatron
from tests.megatron.ranks import with_defaults
from tests.torchtitan.experiments import MOCK, plan_of

LATENT: dict[str, Value] = {
    "multi_latent_attention": True,
    "qk_layernorm": True,
    "group_query_attention": False,
    "num_query_groups": "unset",
    "kv_lora_rank": 16,
    "qk_head_dim": 12,
    "qk_pos_emb_head_dim": 4,
    "v_head_dim": 10,
}
EXPERTS: dict[str, Value] = {
    "num_experts": 8,
    "moe_router_topk": 3,
    "moe_ffn_hidden_size": 48,
    "moe_layer_freq": "[0]+[1]*1",
    "moe_shared_expert_intermediate_size": 32,
}

MODELS: dict[str, dict[str, Value]] = {
    "dense": {},
    "every head its own": {"group_query_attention": False, "num_query_groups": "unset"},
    "wide heads": {"kv_channels": 48},
    "experts": EXPERTS,
    "latent": LATENT,
    "latent, compressed queries, experts": {**LATENT, **EXPERTS, "q_lora_rank": 24},
}


@pytest.fixture(scope="module")
def theirs() -> Callable[..., float]:
    """Megatron's function, from its source: importing it would import all of Megatron and torch."""
    (source,) = [path for path in files("megatron-core") or () if str(path) == "megatron/training/training.py"]
    (function,) = [
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "num_floating_point_operations"
    ]
    scope: dict[str, Any] = {"is_hybrid_model": lambda args: False, "is_linear_attention_variant": lambda name: False}
    exec(compile(ast.Module([function], []), "training.py", "exec"), scope)  # the library's own source
    made: Callable[..., float] = scope["num_floating_point_operations"]
    return made


@pytest.mark.parametrize("name", MODELS)
def test_floating_point_operations_are_those_of_megatron(name: str, theirs: Callable[..., float]) -> None:
    """A row's `tflops` of either back end stands for the same work; Megatron's own count leaves out the router."""
    params = {key: value for key, value in {**MOCK, **MODELS[name]}.items() if value != "unset"}
    plan = megatron.plan_of(params, accelerator="cuda")
    assert plan.translation
    assert plan.translation.model
    args = Namespace(**with_defaults(plan.translation.native))
    args.padded_vocab_size = args.vocab_size  # the model needs no rows of padding
    args.kv_channels, args.ffn_hidden_size = plan.translation.model.head_size, plan.translation.model.ffn_hidden
    if isinstance(args.moe_layer_freq, str):
        args.moe_layer_freq = [0, 1]
    shapes = [megatron_shape(plan), torchtitan_shape(plan_of(params))]
    assert all(shapes)
    ours = [flops_of(shape) for shape in shapes if shape]
    assert ours[0].model == pytest.approx(ours[1].model, rel=1e-12)
    router = 6 * 64 * 8 if "experts" in name else 0
    assert ours[0].model - router == pytest.approx(theirs(args, 5) / (5 * 32), rel=1e-3)
