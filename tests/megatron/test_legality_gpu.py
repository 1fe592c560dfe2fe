"""What Megatron could not train on GPUs is told before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_backend_megatron import host
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan
from tests.megatron.experiments import MOCK, plan_of

LOCAL: dict[str, Value] = {"transformer_impl": "local"}
UNFUSED: dict[str, Value] = {"attention_backend": "unfused"}
CONTEXT: dict[str, Value] = {"context_parallel_size": 2}
EXPERTS: dict[str, Value] = {"num_experts": 8, "moe_router_topk": 2}

FSDP2: dict[str, Value] = {
    "use_torch_fsdp2": True,
    "gradient_accumulation_fusion": False,
    "untie_embeddings_and_output_weights": True,
}
OWN_FSDP: dict[str, Value] = {"use_megatron_fsdp": True, "ckpt_format": "fsdp_dtensor"}


def selected(*modules: Value) -> dict[str, Value]:
    """Parts of each layer that are recomputed."""
    return {"recompute_granularity": "selective", "recompute_modules": list(modules)}


ILLEGAL: dict[str, tuple[dict[str, Value], str, list[str]]] = {
    "context parallelism with Megatron's own attention": (
        {**LOCAL, **CONTEXT},
        "context",
        [
            'transformer_impl: "local" (exp.yaml:',
            "set transformer_impl: transformer_engine, or context_parallel_size: 1",
        ],
    ),
    "context parallelism with unfused attention": (
        {**UNFUSED, **CONTEXT},
        "context",
        ['attention_backend: "unfused" (exp.yaml:', "set attention_backend: auto, or context_parallel_size: 1"],
    ),
    "Megatron's own attention by the name of a kernel": (
        {"attention_backend": "local"},
        "attention",
        ["set attention_backend: auto, and transformer_impl: local"],
    ),
    "activation of experts one by one": (
        {**EXPERTS, **selected("moe_act"), "moe_grouped_gemm": False},
        "recompute",
        ["moe_act is recomputed in grouped experts only", "set moe_grouped_gemm: true, or take moe_act out"],
    ),
    "activation of experts without experts": (selected("moe_act"), "recompute", ["set moe_grouped_gemm: true"]),
    "narrow tensors without latent attention": (
        selected("core_attn", "mla_up_proj"),
        "recompute",
        ["mla_up_proj is recomputed in latent attention only", "take mla_up_proj out of recompute_modules"],
    ),
    "FSDP2 in a pipeline": (
        {**FSDP2, "pipeline_model_parallel_size": 2},
        "fsdp",
        [
            "use_torch_fsdp2 does not work with pipeline parallelism",
            "pipeline_model_parallel_size: 2 (exp.yaml:",
            "set pipeline_model_parallel_size: 1, or use_torch_fsdp2: false",
        ],
    ),
    "FSDP2 of divided experts": (
        {**FSDP2, **EXPERTS, "expert_model_parallel_size": 2},
        "fsdp",
        ["with expert parallelism", "set expert_model_parallel_size: 1"],
    ),
    "FSDP2 with the distributed optimizer": (
        {**FSDP2, "use_distributed_optimizer": True},
        "fsdp",
        ["with Megatron's distributed optimizer", "set use_distributed_optimizer: false"],
    ),
    "FSDP2 with fused accumulation": (
        {**FSDP2, "gradient_accumulation_fusion": True},
        "fsdp",
        ["with fused accumulation of gradients", "set gradient_accumulation_fusion: false"],
    ),
    "FSDP2 with one tensor at both ends": (
        {**FSDP2, "untie_embeddings_and_output_weights": False},
        "fsdp",
        ["that has the embedding's weights", "set untie_embeddings_and_output_weights: true"],
    ),
    "FSDP2 in fp16": ({**FSDP2, "fp16": True, "bf16": False}, "fsdp", ["with fp16", "set fp16: false"]),
    "FSDP2 with checkpoints of the old format": (
        {**FSDP2, "ckpt_format": "torch"},
        "fsdp",
        ['ckpt_format: "torch" (exp.yaml:', "set ckpt_format: torch_dist"],
    ),
    "FSDP2 with checkpoints of PyTorch, tensor parallel": (
        {**FSDP2, "ckpt_format": "torch_dcp", "tensor_model_parallel_size": 2},
        "fsdp",
        ["torch_dcp do not work with tensor parallelism", "set ckpt_format: torch_dist"],
    ),
    "FSDP2 with another optimizer": ({**FSDP2, "optimizer": "muon"}, "fsdp", ["than adam", "set optimizer: adam"]),
    "DCP's format without FSDP2": (
        {"ckpt_format": "torch_dcp"},
        "fsdp",
        ["the format torch_dcp", "set ckpt_format: torch_dist, or use_torch_fsdp2: true"],
    ),
    "the format of Megatron's FSDP without it": (
        {"ckpt_format": "fsdp_dtensor"},
        "fsdp",
        ["the format fsdp_dtensor", "set ckpt_format: torch_dist, or use_megatron_fsdp: true"],
    ),
    "both ways to shard": ({**FSDP2, "use_megatron_fsdp": True}, "fsdp", ["set use_megatron_fsdp: false"]),
    "Megatron's FSDP with checkpoints of another format": (
        {**OWN_FSDP, "ckpt_format": "torch_dist"},
        "fsdp",
        ["use_megatron_fsdp does not work with checkpoints", "set ckpt_format: fsdp_dtensor, or use_megatron_fsdp: fa"],
    ),
    "Megatron's FSDP of experts in one tensor": (
        {**OWN_FSDP, **EXPERTS, "moe_single_grouped_weight": True},
        "fsdp",
        ["weights of experts in one tensor", "set moe_single_grouped_weight: false"],
    ),
    "Megatron's FSDP of biases in one tensor": (
        {**OWN_FSDP, **EXPERTS, "moe_single_grouped_bias": True},
        "fsdp",
        ["biases of experts in one tensor", "set moe_single_grouped_bias: false"],
    ),
    "Megatron's FSDP with another optimizer": (
        {**OWN_FSDP, "optimizer": "muon"},
        "fsdp",
        ["optimizers other than adam and sgd", "set optimizer: adam"],
    ),
}
LEGAL: dict[str, dict[str, Value]] = {
    "context parallelism": CONTEXT,
    "Megatron's own attention": LOCAL,
    "unfused attention": UNFUSED,
    "activation of grouped experts": {**EXPERTS, **selected("moe_act")},
    "FSDP2": FSDP2,
    "FSDP2 of experts": {**FSDP2, **EXPERTS},
    "FSDP2, tensor parallel": {**FSDP2, "tensor_model_parallel_size": 2},
    "FSDP2 with checkpoints of PyTorch": {**FSDP2, "ckpt_format": "torch_dcp"},
    "Megatron's FSDP": OWN_FSDP,
    "Megatron's FSDP of experts": {**OWN_FSDP, **EXPERTS},
}
LATE = {"context parallelism with Megatron's own attention", "context parallelism with unfused attention"}
"""What Megatron, or Transformer Engine, finds only while it makes layers or in the first step."""


def plan(params: dict[str, Value]) -> RunPlan:
    """Of two GPUs."""
    return plan_of({**MOCK, **params}, ranks=2, accelerator="cuda")


def found(params: dict[str, Value]) -> Sequence[Finding]:
    return host.preflight_check(plan(params), Where.SUBMIT)


@pytest.mark.parametrize("case", ILLEGAL)
def test_illegal(case: str) -> None:
    """One finding, with the check's name, the values with their places, and what to set instead."""
    params, check, fragments = ILLEGAL[case]
    (finding,) = found(params)
    assert (finding.check, finding.severity, finding.cause) == (f"megatron.{check}", "error", "configuration")
    for fragment in fragments:
        assert fragment in "\n".join([finding.summary, finding.evidence, finding.remedy])


@pytest.mark.parametrize("case", LEGAL)
def test_legal(case: str) -> None:
    """What Megatron can train is not complained about."""
    assert not found(LEGAL[case])


def test_on_cpus_primus_brings_an_attention_with_context_parallelism() -> None:
    """There layers are Megatron's own, and the same layout is legal."""
    assert not host.preflight_check(plan_of({**MOCK, **CONTEXT}, ranks=2), Where.SUBMIT)


@pytest.mark.skipif(not find_spec("megatron") or not find_spec("torch"), reason="Megatron or torch is not installed")
def test_megatron_agrees() -> None:
    """Megatron's own validation accepts what is legal here, and refuses what is illegal unless it finds out later."""
    cases = {**LEGAL, **{name: ILLEGAL[name][0] for name in ILLEGAL}}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("judge.py")), "--transformer-engine"],
        input="\n".join(map(_for_megatron, cases.values())),
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "8"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    refusals = dict(zip(cases, json.loads(done.stdout), strict=True))
    assert {name: refusals[name] for name in LEGAL if refusals[name]} == {}
    assert {name for name in ILLEGAL if not refusals[name]} == LATE


def _for_megatron(params: dict[str, Value]) -> str:
    translation = plan(params).translation
    assert translation is not None
    return json.dumps(
        {"native": translation.native, "ranks": 2, "environment": dict(translation.environment)},
    )
