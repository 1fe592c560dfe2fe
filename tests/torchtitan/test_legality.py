"""What TorchTitan could not divide or run is told before anything starts."""

from __future__ import annotations

import pytest

from primus_backend_torchtitan.host.schedules import NAMES
from primus_core.experiment import Value
from primus_core.planning.legality import check_layout
from primus_core.planning.nodes import nodes_for
from tests.torchtitan.experiments import MOCK, findings, plan_of, translate

TENSOR = "tensor_model_parallel_size"
PIPELINE = "pipeline_model_parallel_size"
EXPERT = "expert_model_parallel_size"
CONTEXT = "context_parallel_size"
REPLICATE = "parallelism.data_parallel_replicate_degree"
SHARD = "parallelism.data_parallel_shard_degree"
SCHEDULE = "parallelism.pipeline_parallel_schedule"
SEQUENCE = "parallelism.enable_sequence_parallel"
RESHARD = "parallelism.fsdp_reshard_after_forward"
MODULES = "parallelism.module_fqns_per_model_part"
PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
FIRST = "parallelism.pipeline_parallel_first_stage_less_layers"
FORCED = "activation_checkpoint.force_recompute_mm_shapes_by_fqns"
PP2: dict[str, Value] = {PIPELINE: 2, "num_layers": 4}
LONG: dict[str, Value] = {CONTEXT: 2, "max_position_embeddings": 4096}
MOE: dict[str, Value] = {"num_experts": 8, "moe_router_topk": 2, "qk_layernorm": True}

ILLEGAL: dict[str, tuple[dict[str, Value], int, str, list[str]]] = {
    "heads": (
        {TENSOR: 3, "seq_length": 30},
        3,
        "tensor-parallel",
        ["4 attention heads and 2 query groups", "3 tensor parallel ranks", f"set {TENSOR} to 2", f"{TENSOR}: 3 (exp"],
    ),
    "query groups": ({TENSOR: 4}, 4, "tensor-parallel", ["2 query groups cannot", f"set {TENSOR} to 2"]),
    "groups among heads": ({"num_query_groups": 3}, 1, "query-groups", ["into 3 query groups", "to 2 or 4"]),
    "size of a head": ({"hidden_size": 66}, 1, "heads", ["66 features", "64 or 68", "kv_channels"]),
    "vocabulary": ({"model.padded_vocab_size": 100}, 1, "vocabulary", ["250 tokens", "100 rows", "to 250 or more"]),
    "positions": ({"seq_length": 64}, 1, "positions", ["64 tokens", "32 positions", "set seq_length to 32 or less"]),
    "blocks of context": ({**LONG, "seq_length": 300}, 2, "sequence", ["multiple of 256", "seq_length to 256 or 512"]),
    "shorter than blocks": ({**LONG, "seq_length": 64}, 2, "sequence", ["multiple of 256", "seq_length to 256"]),
    "sequence parallelism": (
        {TENSOR: 2, "seq_length": 31},
        2,
        "sequence",
        ["multiple of 2", "sequence parallelism of 2 ranks", "to 30 or 32", "seq_length: 31 (exp.yaml:"],
    ),
    "pieces of the loss": (
        {"loss.num_chunks": 5},
        1,
        "loss",
        ["32 tokens cannot be cut into 5 equal pieces", "loss.num_chunks to 4 or 8", "loss.num_chunks: 5 (exp.yaml:"],
    ),
    "balancer": (
        {**LONG, "seq_length": 256, "parallelism.context_parallel_load_balancer": "zigzag"},
        2,
        "context",
        ["no way zigzag", "headtail, ptrr or null"],
    ),
    "shards of experts": (
        {**MOE},
        12,
        "expert-shards",
        [
            "8 experts are fewer",
            "12 ranks cannot divide 64 features",
            f"set {REPLICATE} to 3, or start",
            "num_experts: 8",
        ],
    ),
    "modules of no stage": (
        {**PP2, MODULES: [["tok_embeddings", "layers.0", "layers.1"], ["layers.2", "norm", "lm_head"]]},
        2,
        "stages",
        ["no stage has layers.3", "once"],
    ),
    "modules of two stages": (
        {PIPELINE: 2, MODULES: [["tok_embeddings", "layers.0", "layers.1"], ["layers.1", "norm", "lm_head"]]},
        2,
        "stages",
        ["several stages have layers.1", "once"],
    ),
    "modules by other names": (
        {PIPELINE: 2, MODULES: [["tok_embeddings", "layers.0", "layers.1"], ["norm", "lm_head", "output"]]},
        2,
        "stages",
        ["the model has no output", "once"],
    ),
    "stages that are written": (
        {PIPELINE: 2, MODULES: [["tok_embeddings", "layers.0", "layers.1", "norm", "lm_head"]]},
        2,
        "stages",
        ["1 stages do not suit 1F1B on 2 ranks", "write 2 stages"],
    ),
    "sequences on a stage without layers": (
        {**LONG, PIPELINE: 2, "num_layers": 1, "seq_length": 256},
        4,
        "stages",
        ["the last stage has none", f"{PIPELINE} to 1", "last_stage_less_layers: 0", f"{CONTEXT}: 2 (exp.yaml:"],
    ),
    "stages": ({PIPELINE: 8}, 8, "stages", ["2 layers in 8 stages", "1F1B, which has one stage", f"{PIPELINE} to 3"]),
    "stages of a loop": (
        {PIPELINE: 4, SCHEDULE: "Interleaved1F1B", "micro_batch_size": 1},
        4,
        "stages",
        ["2 layers in 8 stages", "two stages or more on each of the 4 ranks", f"set {PIPELINE} to 1"],
    ),
    "layers of a stage": (
        {**PP2, PER_STAGE: 2},
        2,
        "stages",
        ["4 layers in 3 stages", f"{PER_STAGE}: 2 (exp.yaml:", f"set {PIPELINE} to 1 or 3"],
    ),
    "ends that count for more": (
        {**PP2, "parallelism.pipeline_parallel_last_stage_less_layers": 6},
        2,
        "stages",
        ["last_stage_less_layers: 6 (exp.yaml:", f"set {PIPELINE} to 1, or choose another number of layers"],
    ),
    "an embedding alone": (
        {**PP2, SCHEDULE: "Interleaved1F1B", PER_STAGE: 1, "num_layers": 2},
        2,
        "stages",
        ["2 layers in 4 stages", f"set {PIPELINE} to 1, or choose another number of layers"],
    ),
    "shared weights": (
        {**PP2, "untie_embeddings_and_output_weights": False},
        2,
        "pipeline",
        ["share their weights", "untie_embeddings_and_output_weights: true"],
    ),
    "no such schedule": ({**PP2, SCHEDULE: "Interleved1F1B"}, 2, "schedule", ["write Interleaved1F1B"]),
    "nothing like a schedule": ({**PP2, SCHEDULE: "best"}, 2, "schedule", [f"write one of {', '.join(NAMES)}"]),
    "a norm without gradients": (
        {**PP2, SCHEDULE: "ZBVZeroBubble", "loss.kind": "chunked"},
        2,
        "loss",
        ["the last norm gets no gradient where ZBVZeroBubble", "loss.kind: cross_entropy", 'loss.kind: "chunked" (exp'],
    ),
    "a norm without gradients of pieces": (
        {**PP2, SCHEDULE: "InterleavedZeroBubble", "loss.num_chunks": 4},
        2,
        "loss",
        ["the last norm gets no gradient", "loss.num_chunks: 4 (exp.yaml:"],
    ),
    "too few micro batches": (
        {**PP2, "global_batch_size": 2},
        2,
        "micro-batches",
        ["1F1B needs 2 micro batches or more, and a step has 1", "set global_batch_size to 4"],
    ),
    "rounds of micro batches": (
        {**PP2, SCHEDULE: "Interleaved1F1B", "global_batch_size": 10},
        2,
        "micro-batches",
        ["multiple of the 2 rounds", "a step has 5", "set global_batch_size to 8 or 12"],
    ),
    "micro batches of a fold": (
        {**PP2, SCHEDULE: "DualPipeV", "global_batch_size": 6},
        2,
        "micro-batches",
        ["4 micro batches or more", "a step has 3", "set global_batch_size to 8"],
    ),
    "micro batches by its own names": (
        {
            **PP2,
            "micro_batch_size": None,
            "training.local_batch_size": 4,
            "parallelism.pipeline_parallel_microbatch_size": 4,
        },
        2,
        "micro-batches",
        ["set training.local_batch_size to 8", "microbatch_size: 4 (exp.yaml:"],
    ),
    "pieces of a local batch": (
        {
            **PP2,
            "micro_batch_size": None,
            "training.local_batch_size": 8,
            "parallelism.pipeline_parallel_microbatch_size": 3,
            "global_batch_size": None,
        },
        2,
        "batch",
        ["a local batch of 8 samples", "micro batches of 3", "to 2 or 4"],
    ),
    "local batches of a step": (
        {**PP2, "micro_batch_size": None, "training.local_batch_size": 3, "global_batch_size": 10},
        2,
        "batch",
        ["3 x 1", "set global_batch_size to 9 or 12", "training.local_batch_size: 3 (exp.yaml:"],
    ),
    "no batch": ({"global_batch_size": 0}, 1, "batch", ["global_batch_size is 0"]),
    "no shards": ({SHARD: 0}, 1, "shards", ["is 0", "-1 for all ranks"]),
    "copies": ({REPLICATE: 3}, 4, "data-parallel", ["4 data parallel ranks", "3 copies", f"{REPLICATE} to 2 or 4"]),
    "copies and shards": (
        {REPLICATE: 2, SHARD: 4},
        4,
        "data-parallel",
        ["2 copies of 4 shards are 8", "there are 4", f"set {SHARD} to 2 or -1, or start 8 ranks", f"{SHARD}: 4 (exp"],
    ),
    "copies beside tensors": (
        {REPLICATE: 1, SHARD: 1, TENSOR: 2},
        4,
        "data-parallel",
        ["1 copies of 1 shards", f"set {SHARD} to 2 or -1, or start 2 ranks", f"{TENSOR}: 2 (exp.yaml:"],
    ),
    "no experts": ({EXPERT: 2}, 2, "experts", ["without experts", "num_experts: null (default)", f"{EXPERT}: 1"]),
    "chosen experts": ({**MOE, "moe_router_topk": 9}, 1, "experts", ["9 of 8", "set moe_router_topk to 8 or less"]),
    "experts": ({**MOE, EXPERT: 3}, 3, "experts", ["8 experts", f"set {EXPERT} to 2 or 4", f"{EXPERT}: 3 (exp.yaml:"]),
    "ranks of experts": (
        {**MOE, EXPERT: 4, REPLICATE: 2},
        4,
        "expert-ranks",
        ["the 2 ranks that hold one stage of one copy", f"set {EXPERT} to 2", f"{REPLICATE}: 2 (exp.yaml:"],
    ),
    "experts beside tensors": (
        {**MOE, TENSOR: 2, EXPERT: 2, SEQUENCE: False},
        2,
        "expert-sequence",
        ["only where the sequence is divided", f"set {SEQUENCE}: true, {EXPERT}: 1", f"{SEQUENCE}: false (exp.yaml:"],
    ),
    "gradients that would be lost": (
        {**PP2, SCHEDULE: "DualPipeV", "loss.kind": "cross_entropy", RESHARD: "always", "global_batch_size": 8},
        2,
        "reshard",
        ["lose gradients without a word", f"set {RESHARD}: default", '"always" (exp.yaml:'],
    ),
    "selective recomputation of halves": (
        {**PP2, SCHEDULE: "ZBVZeroBubble", "loss.kind": "cross_entropy", "activation_checkpoint.kind": "selective"},
        2,
        "recompute",
        ["run backward only once", "activation_checkpoint.kind: none", "Interleaved1F1B", '"selective" (exp.yaml:'],
    ),
    "budget of memory": (
        {"activation_checkpoint.kind": "memory_budget"},
        1,
        "recompute",
        ["only where the model is compiled", "compile.enable: true"],
    ),
    "forced to run again, but no linear layer": (
        {"activation_checkpoint.kind": "selective", FORCED: ["moe.router.gate", "feed_forward"]},
        1,
        "recompute",
        [
            "feed_forward is in the name of feed_forward, which is no linear layer",
            "name one of attention.qkv_linear.wqkv",
        ],
    ),
    "forced to run again, but not there": (
        {"activation_checkpoint.kind": "selective", FORCED: ["attention.w0"]},
        1,
        "recompute",
        ["no linear layer has attention.w0 in its name", "attention.wo", f'{FORCED}: ["attention.w0"] (exp.yaml:'],
    ),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_layout_is_one_finding(case: str) -> None:
    """It names the values and where they stand, and the nearest that are legal."""
    params, ranks, check, texts = ILLEGAL[case]
    (finding,) = findings({**MOCK, **params}, ranks=ranks)
    assert (finding.check, finding.severity, finding.cause) == (f"torchtitan.{check}", "error", "configuration")
    for text in texts:
        assert text in "\n".join([finding.summary, finding.evidence, finding.remedy])


LEGAL: dict[str, tuple[dict[str, Value], int]] = {
    "all ranks are shards": ({SHARD: -1}, 4),
    "experts on the ranks of a tensor": ({**MOE, TENSOR: 2, EXPERT: 2}, 2),
    "as many shards as are left": ({SHARD: 2, REPLICATE: 2}, 4),
    "features and vocabulary that ranks share unevenly": ({TENSOR: 2, "ffn_hidden_size": 129}, 2),
    "a sequence that only its tensors share": (
        {TENSOR: 2, "seq_length": 31, SEQUENCE: False},
        2,
    ),
    "tensors of experts with whole sequences": ({**MOE, TENSOR: 2, SEQUENCE: False}, 2),
    "divided experts with whole sequences": ({**MOE, EXPERT: 2, SEQUENCE: False}, 2),
    "one micro batch where nothing waits": ({**PP2, SCHEDULE: "gpipe", "global_batch_size": 2}, 2),
    "a last stage without layers": ({**PP2, SCHEDULE: "Interleaved1F1B"}, 2),
    "six stages on two ranks": ({**PP2, SCHEDULE: "Interleaved1F1B", PER_STAGE: 1, "num_layers": 5, FIRST: 0}, 2),
    "stages by modules": (
        {
            **PP2,
            "parallelism.module_fqns_per_model_part": [
                ["tok_embeddings", "layers.0"],
                ["layers.1", "layers.2", "layers.3", "norm", "lm_head"],
            ],
        },
        2,
    ),
    "a budget of memory for what is compiled": (
        {"activation_checkpoint.kind": "memory_budget", "compile.enable": True},
        1,
    ),
}


@pytest.mark.parametrize("case", LEGAL)
def test_what_torchtitan_can_do_is_not_refused(case: str) -> None:
    """Checks leave alone what trains."""
    params, ranks = LEGAL[case]
    assert findings({**MOCK, **params}, ranks=ranks) == []


def test_copies_and_shards_tell_how_many_nodes_are_meant() -> None:
    """Where nobody says how many there are, they are the fewest that hold all copies of all shards."""
    layout = translate({**MOCK, TENSOR: 2, REPLICATE: 2, SHARD: 8, "global_batch_size": 64}, ranks=8).layout
    assert nodes_for(layout, 8) == 4
    assert nodes_for(translate({**MOCK, REPLICATE: 2}, ranks=8).layout, 8) == 1


def test_ranks_and_batches_are_told_by_the_names_that_were_used() -> None:
    """The world size and the batch are core's checks, also where TorchTitan's own paths are set."""
    native: dict[str, Value] = {"parallelism.tensor_parallel_degree": 2, "training.local_batch_size": 3}
    (world,) = check_layout(plan_of({**MOCK, "micro_batch_size": None, **native}, ranks=3))
    assert "3 ranks cannot hold whole replicas of 2 ranks each" in world.summary
    assert "parallelism.tensor_parallel_degree: 2 (exp.yaml:" in world.evidence
    (batch,) = check_layout(plan_of({**MOCK, "micro_batch_size": None, **native}, ranks=2))
    assert "nearest legal global_batch_size: 6 or 9" in batch.remedy
    assert "training.local_batch_size: 3 (exp.yaml:" in batch.evidence
