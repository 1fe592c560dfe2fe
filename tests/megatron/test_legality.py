"""What Megatron could not train is told before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_backend_megatron import host
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.planning.nearest import nearest_divisors, nearest_multiples
from tests.megatron.experiments import MOCK, findings, plan_of

GQA: dict[str, Value] = {"num_attention_heads": 32, "num_query_groups": 8, "hidden_size": 256, "ffn_hidden_size": 512}
MOE: dict[str, Value] = {"num_experts": 8, "moe_router_topk": 2}
TP2: dict[str, Value] = {"tensor_model_parallel_size": 2}
PP2: dict[str, Value] = {"pipeline_model_parallel_size": 2}
LATENT: dict[str, Value] = {"multi_latent_attention": True, "q_lora_rank": 16}
VIRTUAL: dict[str, Value] = {"num_virtual_stages_per_pipeline_rank": 2}

ILLEGAL: dict[str, tuple[dict[str, Value], int, str, list[str]]] = {
    "heads": (
        {**GQA, "tensor_model_parallel_size": 3},
        3,
        "tensor-parallel",
        ["32 attention heads", "set tensor_model_parallel_size to 2 or 4", "num_attention_heads: 32 (exp.yaml:"],
    ),
    "more ranks than heads": ({"tensor_model_parallel_size": 16}, 16, "tensor-parallel", ["8 attention heads", "to 8"]),
    "query groups": (
        {**GQA, "num_attention_heads": 24, "num_query_groups": 6, "hidden_size": 384, "tensor_model_parallel_size": 4},
        4,
        "tensor-parallel",
        ["6 query groups", "set tensor_model_parallel_size to 2"],
    ),
    "mlp": ({"ffn_hidden_size": 99, **TP2}, 2, "tensor-parallel", ["99 MLP features", "to 1"]),
    "embedding": (
        {"vocab_size": 1001, "pad_vocab_size": False, **TP2},
        2,
        "tensor-parallel",
        ["1001 rows of the embedding", "pad_vocab_size: false (exp.yaml:"],
    ),
    "compressed keys": (
        {**LATENT, "kv_lora_rank": 17, **TP2},
        2,
        "tensor-parallel",
        ["81 compressed features of keys and values", "kv_lora_rank: 17 (exp.yaml:", "to 1"],
    ),
    "compressed queries": ({**LATENT, "q_lora_rank": 15, **TP2}, 2, "tensor-parallel", ["15 compressed", "to 1"]),
    "groups among heads": ({"num_query_groups": 3}, 1, "query-groups", ["3 query groups", "2 or 4"]),
    "size of a head": ({"hidden_size": 100}, 1, "heads", ["96 or 104", "kv_channels"]),
    "two attentions": ({"multi_latent_attention": True, "group_query_attention": True}, 1, "attention", ["no query"]),
    "vocabulary": ({"padded_vocab_size": 512}, 1, "vocabulary", ["1000 tokens", "512 rows"]),
    "layers": ({"pipeline_model_parallel_size": 3}, 3, "layers", ["4 layers", "2 or 4"]),
    "more stages than layers": ({"pipeline_model_parallel_size": 8}, 8, "layers", ["4 layers", "to 4"]),
    "uneven ends": (
        {"pipeline_model_parallel_size": 3, "decoder_first_pipeline_num_layers": 1},
        3,
        "layers",
        ["3 layers between the ends", "decoder_first_pipeline_num_layers: 1 (exp.yaml:"],
    ),
    "embedding as a layer": (
        {**PP2, "account_for_embedding_in_pipeline_split": True},
        2,
        "layers",
        ["5 layers", "account_for_embedding_in_pipeline_split: true"],
    ),
    "virtual stages": (
        {**PP2, "num_layers": 8, "num_virtual_stages_per_pipeline_rank": 3},
        2,
        "virtual-stages",
        ["4 layers", "2 or 4"],
    ),
    "layers of a virtual stage": (
        {**PP2, "num_layers": 8, "num_layers_per_virtual_pipeline_stage": 3},
        2,
        "virtual-stages",
        ["num_layers_per_virtual_pipeline_stage to 2 or 4"],
    ),
    "two ways to say virtual": (
        {**PP2, "num_layers_per_virtual_pipeline_stage": 1, "num_virtual_stages_per_pipeline_rank": 2},
        2,
        "virtual-stages",
        ["both set"],
    ),
    "virtual stages without stages": (
        {"num_virtual_stages_per_pipeline_rank": 2},
        1,
        "virtual-stages",
        ["2 or more pipeline stages"],
    ),
    "virtual stages without overlap": (
        {**PP2, "num_virtual_stages_per_pipeline_rank": 2, "overlap_p2p_comm": False},
        2,
        "virtual-stages",
        ["3 or more pipeline stages", "overlap_p2p_comm: false"],
    ),
    "layers of an uneven end": (
        {
            **PP2,
            "num_layers": 7,
            "decoder_first_pipeline_num_layers": 3,
            "num_virtual_stages_per_pipeline_rank": 2,
            "global_batch_size": 4,
        },
        2,
        "virtual-stages",
        ["3 layers", "to 1 or 3"],
    ),
    "virtual stages by layers with an uneven end": (
        {
            **PP2,
            "num_layers": 6,
            "decoder_first_pipeline_num_layers": 2,
            "num_layers_per_virtual_pipeline_stage": 2,
            "global_batch_size": 4,
        },
        2,
        "virtual-stages",
        ["equal size", "set num_virtual_stages_per_pipeline_rank"],
    ),
    "uneven ends and counted embedding": (
        {**PP2, "decoder_first_pipeline_num_layers": 1, "account_for_embedding_in_pipeline_split": True},
        2,
        "layers",
        ["decoder_first_pipeline_num_layers: 1 (exp.yaml:", "account_for_embedding_in_pipeline_split: true"],
    ),
    "too few micro batches": (
        {**PP2, **VIRTUAL},
        2,
        "virtual-stages",
        ["a step has 1", "global_batch_size to 4", "global_batch_size: null"],
    ),
    "uneven micro batches": (
        {**PP2, **VIRTUAL, "global_batch_size": 20},
        4,
        "virtual-stages",
        ["a step has 5", "global_batch_size to 16 or 24"],
    ),
    "group of micro batches": (
        {**PP2, **VIRTUAL, "global_batch_size": 8, "microbatch_group_size_per_vp_stage": 1},
        2,
        "virtual-stages",
        ["microbatch_group_size_per_vp_stage to 2 or more"],
    ),
    "evaluated batch": (
        {"eval_interval": 5, "eval_iters": 1, "eval_global_batch_size": 6},
        2,
        "evaluation",
        ["eval_global_batch_size to 4 or 8", "eval_global_batch_size: 6 (exp.yaml:"],
    ),
    "no experts": ({"expert_model_parallel_size": 2}, 2, "experts", ["without experts"]),
    "experts": ({**MOE, "expert_model_parallel_size": 3}, 3, "experts", ["8 experts", "2 or 4"]),
    "features without experts": ({"moe_ffn_hidden_size": 64}, 1, "experts", ["without experts", "num_experts: null"]),
    "one expert for each token": ({**MOE, "moe_router_topk": 1}, 1, "experts", ["moe_router_pre_softmax: true"]),
    "groups of experts": (
        {**MOE, "moe_router_num_groups": 3, "moe_router_group_topk": 1},
        1,
        "experts",
        ["8 experts", "3 groups", "2 or 4"],
    ),
    "chosen groups without groups": (
        {**MOE, "moe_router_group_topk": 1},
        1,
        "experts",
        ["moe_router_num_groups to a divisor of 8"],
    ),
    "chosen groups of experts": (
        {**MOE, "moe_router_topk": 4, "moe_router_num_groups": 4, "moe_router_group_topk": 1},
        1,
        "experts",
        ["4 experts", "1 of 4 groups", "moe_router_group_topk to 2"],
    ),
    "shared experts": (
        {
            **MOE,
            **TP2,
            "sequence_parallel": True,
            "add_bias_linear": False,
            "moe_shared_expert_intermediate_size": 99,
        },
        2,
        "tensor-parallel",
        ["99 features of the shared experts"],
    ),
    "chosen experts": ({**MOE, "moe_router_topk": 9}, 1, "experts", ["9 of 8"]),
    "experts and tensor parallel": (
        {**MOE, **TP2, "add_bias_linear": False},
        2,
        "experts",
        ["sequence_parallel: true"],
    ),
    "ranks of experts": (
        {**MOE, "expert_model_parallel_size": 4, "expert_tensor_parallel_size": 1},
        2,
        "expert-ranks",
        ["2 ranks", "4 ranks each"],
    ),
    "features of an expert": (
        {**MOE, **TP2, "sequence_parallel": True, "add_bias_linear": False, "moe_ffn_hidden_size": 97},
        2,
        "ffn",
        ["97 features", "96 or 98"],
    ),
    "bias of divided experts": (
        {**MOE, **TP2, "sequence_parallel": True},
        2,
        "experts",
        ["add_bias_linear: true (Megatron's default)", "expert_tensor_parallel_size: 1"],
    ),
    "context chunks": ({"context_parallel_size": 2, "seq_length": 126}, 2, "sequence", ["124 or 128"]),
    "sequence parallel": ({**TP2, "sequence_parallel": True, "seq_length": 127}, 2, "sequence", ["126 or 128"]),
    "positions": ({"max_position_embeddings": 64}, 1, "positions", ["128", "64", "max_position_embeddings: 64 (exp"]),
    "learned positions and more tokens": (
        {"mtp_num_layers": 1, "position_embedding_type": "learned_absolute"},
        1,
        "positions",
        ["not with learned_absolute", "set position_embedding_type: rope, or leave mtp_num_layers out"],
    ),
    "iterations and samples": ({"train_samples": 10}, 1, "schedule", ["both set"]),
    "samples in iterations": ({"lr_warmup_samples": 10}, 1, "schedule", ["lr_warmup_iters"]),
    "fraction and iterations": ({"lr_warmup_fraction": 0.1, "lr_warmup_iters": 1}, 1, "schedule", ["both set"]),
    "warm-up": (
        {"lr_warmup_iters": 9, "lr_decay_iters": 5},
        1,
        "schedule",
        ["4 or less", "lr_decay_iters: 5 (exp.yaml:"],
    ),
    "learning rates": ({"min_lr": 1.0}, 1, "schedule", ["min_lr is more than lr"]),
    "precisions": ({"fp16": True, "bf16": True}, 1, "precision", ["fp16 and bf16"]),
    "parameter gather": (
        {"overlap_param_gather": True, "overlap_grad_reduce": True, "use_distributed_optimizer": False},
        1,
        "overlap",
        ["use_distributed_optimizer: true", "use_distributed_optimizer: false (exp.yaml:"],
    ),
    "gradient reduce": (
        {"overlap_param_gather": True, "use_distributed_optimizer": True},
        1,
        "overlap",
        ["overlap_grad_reduce: true"],
    ),
    "recomputation": ({"recompute_granularity": "full"}, 1, "recompute", ["uniform"]),
    "selective recomputation": (
        {"recompute_granularity": "selective", "recompute_method": "block"},
        1,
        "recompute",
        ["recompute_method: null"],
    ),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_illegal(case: str) -> None:
    """One finding, with the check's name, the values with their places, and what to set instead."""
    params, ranks, check, fragments = ILLEGAL[case]
    (finding,) = findings({**MOCK, **params}, ranks=ranks)
    assert (finding.check, finding.severity, finding.cause) == (f"megatron.{check}", "error", "configuration")
    for fragment in fragments:
        assert fragment in "\n".join([finding.summary, finding.evidence, finding.remedy])


LEGAL: dict[str, tuple[dict[str, Value], int]] = {
    "as small as it gets": ({}, 1),
    "tensor": ({"tensor_model_parallel_size": 8}, 8),
    "more ranks than groups": ({**GQA, "num_query_groups": 2, "tensor_model_parallel_size": 4}, 4),
    "head size of its own": ({"hidden_size": 100, "kv_channels": 16}, 1),
    "vocabulary that is padded": ({"vocab_size": 1001, **TP2}, 2),
    "pipeline": ({"pipeline_model_parallel_size": 4}, 4),
    "uneven pipeline": (
        {
            "num_layers": 7,
            "pipeline_model_parallel_size": 3,
            "decoder_first_pipeline_num_layers": 2,
            "decoder_last_pipeline_num_layers": 1,
        },
        3,
    ),
    "interleaved": ({**PP2, **VIRTUAL, "global_batch_size": 4}, 2),
    "interleaved by layers": (
        {**PP2, "num_layers": 8, "num_layers_per_virtual_pipeline_stage": 2, "global_batch_size": 8},
        2,
    ),
    "interleaved with a small last group": (
        {**PP2, **VIRTUAL, "global_batch_size": 10, "microbatch_group_size_per_vp_stage": 3},
        2,
    ),
    "two uneven ends": (
        {**PP2, "decoder_first_pipeline_num_layers": 3, "decoder_last_pipeline_num_layers": 1},
        2,
    ),
    "experts in groups": ({**MOE, "moe_router_num_groups": 4, "moe_router_group_topk": 2}, 1),
    "evaluation of a batch of its own": ({"eval_interval": 5, "eval_iters": 1, "eval_global_batch_size": 8}, 2),
    "one virtual stage": ({"num_virtual_stages_per_pipeline_rank": 1}, 1),
    "divided experts": (
        {**MOE, **TP2, "sequence_parallel": True, "add_bias_linear": False, "expert_model_parallel_size": 2},
        4,
    ),
    "whole experts with a bias": ({**MOE, **TP2, "sequence_parallel": True, "expert_tensor_parallel_size": 1}, 2),
    "context": ({"context_parallel_size": 2}, 2),
    "warm-up that outlasts the run": ({"lr_warmup_iters": 100}, 1),
    "warm-up by a fraction": ({"lr_warmup_fraction": 0.1}, 1),
    "gather": ({"overlap_param_gather": True, "overlap_grad_reduce": True, "use_distributed_optimizer": True}, 1),
    "full recomputation": (
        {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
        1,
    ),
    "evaluation": ({"eval_interval": 5, "eval_iters": 1}, 1),
}


def test_the_line_is_the_users() -> None:
    """Sizes that contradict each other are told at the line of the stronger layer, not at that of a preset."""
    (finding,) = findings({**MOCK, "hidden_size": 100}, {"hidden_size": "model"})
    assert finding.where == f"exp.yaml:{10 + list(MOCK).index('num_attention_heads')}"
    (finding,) = findings({**MOCK, "hidden_size": 100}, {"num_attention_heads": "model"})
    assert finding.where == f"exp.yaml:{10 + list(MOCK).index('hidden_size')}"


@pytest.mark.parametrize("case", LEGAL)
def test_legal(case: str) -> None:
    """What Megatron can train is not complained about."""
    params, ranks = LEGAL[case]
    assert findings({**MOCK, **params}, ranks=ranks) == []


LATE = {
    "compressed keys",
    "compressed queries",
    "mlp",
    "embedding",
    "groups among heads",
    "vocabulary",
    "virtual stages",
    "too few micro batches",
    "uneven micro batches",
    "group of micro batches",
    "chosen groups of experts",
    "shared experts",
    "chosen experts",
    "ranks of experts",
    "features of an expert",
    "experts and tensor parallel",
    "sequence parallel",
    "warm-up",
}
"""What Megatron finds only while it makes groups, layers or the schedule, or in the first step."""


@pytest.mark.skipif(not find_spec("megatron") or not find_spec("torch"), reason="Megatron or torch is not installed")
def test_megatron_agrees() -> None:
    """Megatron's own validation accepts what is legal here, and refuses what is illegal unless it finds out later."""
    cases = [(name, *LEGAL[name]) for name in LEGAL] + [(name, *ILLEGAL[name][:2]) for name in ILLEGAL]
    lines = [_for_megatron(params, ranks) for _, params, ranks in cases]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("judge.py"))],
        input="\n".join(lines),
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    refusals = dict(zip([name for name, *_ in cases], json.loads(done.stdout), strict=True))
    assert {name: refusals[name] for name in LEGAL if refusals[name]} == {}
    assert {name for name in ILLEGAL if not refusals[name]} == LATE


def _for_megatron(params: dict[str, Value], ranks: int) -> str:
    translation = plan_of({**MOCK, **params}, ranks=ranks).translation
    assert translation is not None
    return json.dumps({"native": translation.native, "ranks": ranks})


def test_evaluation_without_data() -> None:
    """Evaluation that Megatron would silently skip is a warning."""
    (finding,) = findings({**MOCK, "eval_interval": 5, "split": "100, 0, 0"})
    assert (finding.check, finding.severity) == ("megatron.evaluation", "warning")


def test_finding_names_the_spelling_of_the_experiment() -> None:
    """A parameter is named as the user wrote it."""
    (finding,) = findings({**MOCK, **PP2, "virtual_pipeline_model_parallel_size": 3}, ranks=2)
    assert f"virtual_pipeline_model_parallel_size: 3 (exp.yaml:{11 + len(MOCK)})" in finding.evidence


def test_checks_belong_to_the_submitting_host() -> None:
    """Ranks do not repeat what the host has checked, and other frameworks are not judged."""
    plan = plan_of({**MOCK, "max_position_embeddings": 64})
    assert host.preflight_check(plan, Where.SUBMIT)
    assert host.preflight_check(plan, Where.NODE) == ()


@pytest.mark.parametrize(("number", "wanted", "text"), [(32, 3, "2 or 4"), (32, 64, "32"), (7, 3, "1 or 7")])
def test_nearest_divisors(number: int, wanted: int, text: str) -> None:
    """The divisors on both sides, where there are two."""
    assert nearest_divisors(number, wanted) == text


@pytest.mark.parametrize(("number", "step", "text"), [(5000, 2048, "4096 or 6144"), (3, 8, "8")])
def test_nearest_multiples(number: int, step: int, text: str) -> None:
    """The multiples on both sides that are sizes."""
    assert nearest_multiples(number, step) == text
