"""Chosen models and layouts whose memory is compared with that of Megatron's own steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from primus_backend_megatron import host
from primus_core.experiment import Value
from primus_core.plan import Accelerator, RunPlan
from primus_core.projection.iteration import WORKSPACE, Peak, peak
from primus_core.projection.routing import unbalanced
from primus_core.shape import ModelShape
from tests.megatron.experiments import plan_of
from tests.megatron.truth.places import place_of, stage_of
from tests.truth import steps

Params = Mapping[str, Value]

DENSE: Params = {
    "num_layers": 2,
    "hidden_size": 512,
    "ffn_hidden_size": 1792,
    "num_attention_heads": 8,
    "group_query_attention": True,
    "num_query_groups": 4,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "seq_length": 512,
    "max_position_embeddings": 512,
    "micro_batch_size": 2,
    "global_batch_size": 4,
    "train_iters": 6,
    "lr": 1e-2,
    "mock_data": True,
    "vocab_size": 1024,
    "make_vocab_size_divisible_by": 1,
    "bf16": True,
    "use_distributed_optimizer": True,
    "gradient_accumulation_fusion": False,
}
GPT: Params = {
    "swiglu": False,
    "normalization": "LayerNorm",
    "position_embedding_type": "learned_absolute",
    "add_bias_linear": True,
    "group_query_attention": False,
    "num_query_groups": 8,
    "hidden_dropout": 0.1,
}
MIXTURE: Params = {
    "num_experts": 8,
    "moe_router_topk": 2,
    "moe_ffn_hidden_size": 896,
    "moe_token_dispatcher_type": "alltoall",
    "moe_grouped_gemm": False,
    "moe_permute_fusion": False,
    "moe_aux_loss_coeff": 0.0,
}
LATENT: Params = {
    "multi_latent_attention": True,
    "q_lora_rank": 192,
    "kv_lora_rank": 64,
    "qk_head_dim": 64,
    "qk_pos_emb_head_dim": 32,
    "v_head_dim": 64,
    "kv_channels": 64,
    "qk_layernorm": True,
    "rope_type": "rope",
    "group_query_attention": False,
    "num_query_groups": 1,
}
GROUPED: Params = {**MIXTURE, "moe_grouped_gemm": True}
SHARED: Params = {**MIXTURE, "moe_shared_expert_intermediate_size": 512}
NEXT: Params = {"mtp_num_layers": 1}
TENSOR: Params = {"tensor_model_parallel_size": 2}
SEQUENCE: Params = {**TENSOR, "sequence_parallel": True}
FULLY_SHARDED: Params = {
    "use_torch_fsdp2": True,
    "use_distributed_optimizer": False,
    "num_layers": 3,
    "global_batch_size": 16,
}
FP16: Params = {"bf16": False, "fp16": True}
UNFUSED: Params = {"attention_backend": "unfused"}
LARGE_VOCABULARY: Params = {"vocab_size": 8192}


def piped(stages: int, layers: int, **more: Value) -> Params:
    """A pipeline with as many micro batches that some overlap."""
    return {"pipeline_model_parallel_size": stages, "num_layers": layers, "global_batch_size": 16, **more}


def recomputed(granularity: str, **more: Value) -> Params:
    return {"recompute_granularity": granularity, **more}


EACH = recomputed("full", recompute_method="uniform", recompute_num_layers=1)
BY_BLOCK = recomputed("full", recompute_method="block", recompute_num_layers=1)


def selected(*modules: Value) -> Params:
    """Parts of each layer that are recomputed."""
    return recomputed("selective", recompute_modules=list(modules))


@frozen(kw_only=True)
class Case:
    """A model on so many ranks, and the rank to look at."""

    name: str
    params: Params
    ranks: int = 1
    rank: int = 0
    fused: bool = False
    load: float = 1
    """Tokens that the experts of this rank get, over the mean."""

    def plan(self, workspace: str = "/workspace") -> RunPlan:
        """As `primus run` makes it: fused kernels are those of a GPU."""
        kind: Accelerator = "cuda" if self.fused else "cpu"
        return plan_of({**DENSE, **self.params}, ranks=self.ranks, accelerator=kind, workspace=workspace)

    def asked(self, *, once: bool = False) -> dict[str, Any]:
        """What `tests.megatron.truth.live_step.measured` is given."""
        translation = self.plan().translation
        assert translation
        native = {**translation.native, **(_UNFUSED if self.fused else {})}
        asked = {"native": native, "world": self.ranks, "rank": self.rank, "fused": self.fused, "load": self.load}
        return {**asked, "once": once}

    def projected(self) -> Peak:
        """What projection says of this rank."""
        shape = self.shape()
        return peak(shape, stage_of(shape, self.rank))

    def optimizing(self) -> int:
        """Bytes that projection says live on this rank while its optimizer works."""
        shape = self.shape()
        return steps.optimizing(shape, stage_of(shape, self.rank), place_of(shape, self.rank))

    def shape(self) -> ModelShape:
        """What the back end tells."""
        shape = host.model_shape(self.plan())
        assert shape is not None
        return unbalanced(shape, self.load)


_UNFUSED: Params = {
    "transformer_impl": "local",
    "distributed_backend": "gloo",
    "masked_softmax_fusion": False,
    "gradient_accumulation_fusion": False,
    "bias_dropout_fusion": False,
    "apply_rope_fusion": False,
    "no_persist_layer_norm": True,
    "num_workers": 0,
}
"""What of a GPU's values would be a kernel that is not here; its place is taken by `live_fused`, or told apart."""


def activations(peak_: Peak, *, once: bool = False) -> int:
    """Without what lives before the step begins: of the first one nothing but weights and gradients."""
    return peak_.bytes - (0 if once else peak_.parts.get(WORKSPACE, 0))


CHOSEN = (
    Case(name="dense", params={"num_layers": 3}),
    Case(name="a key for each query, large vocabulary", params={"num_query_groups": 8, **LARGE_VOCABULARY}),
    Case(name="fp32", params={"bf16": False}),
    Case(name="layer norms, biases and dropout", params=GPT),
    Case(
        name="tied, norms of queries and keys",
        params={"untie_embeddings_and_output_weights": False, "qk_layernorm": True},
    ),
    Case(name="tensor parallel", params=TENSOR, ranks=2),
    Case(name="tensor and sequence parallel", params=SEQUENCE, ranks=2),
    Case(name="context parallel", params={"context_parallel_size": 2}, ranks=2),
    Case(
        name="tensor, sequence and context parallel", params={**SEQUENCE, "context_parallel_size": 2}, ranks=8, rank=3
    ),
    Case(name="first of two stages", params=piped(2, 4), ranks=2),
    Case(name="last of four stages", params=piped(4, 8, **LARGE_VOCABULARY), ranks=4, rank=3),
    Case(
        name="interleaved, first of two",
        params=piped(2, 8, num_virtual_stages_per_pipeline_rank=2, overlap_p2p_comm=True),
        ranks=2,
    ),
    Case(
        name="layer norms, biases and dropout, all recomputed, tensor parallel, fp32",
        params={
            **GPT,
            **TENSOR,
            **EACH,
            "bf16": False,
        },
        ranks=2,
        rank=1,
    ),
    Case(
        name="interleaved, third of four, experts recomputed",
        params={**MIXTURE, **piped(4, 8, num_virtual_stages_per_pipeline_rank=2), **BY_BLOCK},
        ranks=4,
        rank=2,
    ),
    Case(
        name="interleaved, second of two", params=piped(2, 8, num_virtual_stages_per_pipeline_rank=2), ranks=2, rank=1
    ),
    Case(
        name="recomputed in twos",
        params=recomputed("full", recompute_method="uniform", recompute_num_layers=2, num_layers=4),
    ),
    Case(
        name="two layers of four recomputed, fused",
        fused=True,
        params=recomputed("full", recompute_method="block", recompute_num_layers=2, num_layers=4),
    ),
    Case(name="feed-forward part recomputed", params=recomputed("selective", recompute_modules=["mlp"], num_layers=3)),
    Case(name="experts", params=MIXTURE),
    Case(
        name="experts on two ranks, one shared, fused",
        fused=True,
        params={**MIXTURE, "expert_model_parallel_size": 2, "moe_shared_expert_intermediate_size": 512},
        ranks=2,
    ),
    Case(name="one more token predicted", params={"mtp_num_layers": 1, **LARGE_VOCABULARY}),
    Case(
        name="one more token predicted, last of two stages, sequence parallel, fused",
        params={**piped(2, 4), **SEQUENCE, "mtp_num_layers": 1},
        ranks=4,
        rank=3,
        fused=True,
    ),
    Case(name="latent attention, fused", params=LATENT, fused=True),
    Case(name="latent attention with experts", params={**LATENT, **MIXTURE}),
    Case(
        name="sequence parallel, fused, attention recomputed",
        params={**SEQUENCE, **LARGE_VOCABULARY, **recomputed("selective", recompute_modules=["core_attn"])},
        ranks=2,
        fused=True,
    ),
    Case(name="one more token predicted, all recomputed", params={**NEXT, **EACH}),
    Case(name="one more token predicted, all recomputed, fused", params={**NEXT, **EACH}, fused=True),
    Case(
        name="one more token predicted and not recomputed by block, fused",
        fused=True,
        params={**NEXT, **BY_BLOCK},
    ),
    Case(
        name="one more token predicted, its feed-forward part recomputed, fused",
        fused=True,
        params={**NEXT, **selected("mlp")},
    ),
    Case(name="two more tokens predicted", params={"mtp_num_layers": 2}),
    Case(name="norms recomputed, fused", params={**selected("layernorm"), "num_layers": 3}, fused=True),
    Case(
        name="attention, norms and feed-forward part recomputed, fused",
        fused=True,
        params={**selected("core_attn", "layernorm", "mlp"), "num_layers": 3},
    ),
    Case(name="latent attention, raised again", params={**LATENT, **selected("mla_up_proj"), "num_layers": 3}),
    Case(
        name="latent attention, raised again, fused",
        fused=True,
        params={**LATENT, **selected("mla_up_proj"), "num_layers": 6, "ffn_hidden_size": 256},
    ),
    Case(name="experts and a shared one recomputed, fused", params={**SHARED, **selected("moe")}, fused=True),
    Case(
        name="a shared expert recomputed within recomputed experts, fused",
        fused=True,
        params={**SHARED, **selected("moe", "shared_experts"), "num_layers": 3},
    ),
    Case(
        name="layers with experts recomputed one by one, fused",
        fused=True,
        params={**MIXTURE, **EACH, "num_layers": 4},
    ),
    Case(
        name="one more token predicted by a layer with experts, all recomputed, fused",
        fused=True,
        params={**MIXTURE, **NEXT, **EACH},
    ),
    Case(name="a shared expert with a gate", params={**SHARED, "moe_shared_expert_gate": True, "num_layers": 3}),
    Case(
        name="a shared expert with a gate recomputed, fused",
        fused=True,
        params={**SHARED, "moe_shared_expert_gate": True, **selected("shared_experts")},
    ),
    Case(
        name="layer norms recomputed, biases and dropout, fused",
        fused=True,
        params={**GPT, **selected("layernorm"), "num_layers": 3},
    ),
    Case(
        name="grouped experts on two ranks, fused",
        params={**GROUPED, "expert_model_parallel_size": 2},
        ranks=2,
        fused=True,
    ),
    Case(
        name="activations of grouped experts recomputed, fused", params={**GROUPED, **selected("moe_act")}, fused=True
    ),
    Case(name="the same within the experts, fused", params={**GROUPED, **selected("moe", "moe_act")}, fused=True),
    Case(name="fully sharded, fused", params=FULLY_SHARDED, ranks=4, fused=True),
    Case(
        name="fully sharded over ranks that divide it unequally, fp32, fused",
        params={**FULLY_SHARDED, "bf16": False, "global_batch_size": 12},
        ranks=3,
        rank=2,
        fused=True,
    ),
    Case(
        name="fully sharded and recomputed, tensor parallel, fused",
        fused=True,
        params={**FULLY_SHARDED, **TENSOR, **EACH},
        ranks=4,
        rank=1,
    ),
    Case(
        name="fully sharded, gathered weights kept, fused",
        params={**FULLY_SHARDED, "torch_fsdp2_reshard_after_forward": False},
        ranks=4,
        fused=True,
    ),
    Case(name="fully sharded experts, fused", params={**FULLY_SHARDED, **MIXTURE}, ranks=4, fused=True),
    Case(name="a shared expert recomputed", params={**SHARED, **selected("shared_experts")}),
    Case(name="fp16", params=FP16),
    Case(name="latent attention, sequence parallel", params={**LATENT, **SEQUENCE}, ranks=2),
    Case(
        name="latent attention, sequence parallel, fused",
        fused=True,
        params={**LATENT, **SEQUENCE, "ffn_hidden_size": 256, "num_layers": 4},
        ranks=2,
    ),
    Case(name="latent attention, context parallel", params={**LATENT, "context_parallel_size": 2}, ranks=2),
    Case(name="context parallel, fused", params={"context_parallel_size": 2}, ranks=2, fused=True),
    Case(
        name="experts of a rank that get half as many tokens again, fused",
        fused=True,
        params={**MIXTURE, "expert_model_parallel_size": 2},
        ranks=2,
        load=1.5,
    ),
    Case(
        name="experts of a rank that get three times their share, one shared, fused",
        fused=True,
        params={**SHARED, "expert_model_parallel_size": 4, "global_batch_size": 16},
        ranks=4,
        load=3,
    ),
    Case(
        name="the loss in fewer kernels",
        params={**LARGE_VOCABULARY, "cross_entropy_loss_fusion": True},
        fused=True,
    ),
    Case(
        name="the loss in fewer kernels, fp32",
        params={**LARGE_VOCABULARY, "cross_entropy_loss_fusion": True, "bf16": False},
    ),
    Case(name="attention with whole matrices, fused", params=UNFUSED, fused=True),
    Case(
        name="attention with whole matrices and dropout, all recomputed, fused",
        fused=True,
        params={
            **UNFUSED,
            **EACH,
            "attention_dropout": 0.1,
            "num_layers": 4,
        },
    ),
    Case(
        name="attention with whole matrices, recomputed, fused",
        fused=True,
        params={**UNFUSED, **selected("core_attn"), "num_layers": 3},
    ),
    Case(
        name="attention with whole matrices, sequence parallel, fused",
        fused=True,
        params={**UNFUSED, **SEQUENCE, "attention_dropout": 0.1},
        ranks=2,
    ),
    Case(name="latent attention with whole matrices, fused", params={**LATENT, **UNFUSED}, fused=True),
)

OPTIMIZERS = (
    Case(name="gradients reduced in bf16", params={"grad_reduce_in_bf16": True}),
    Case(name="gradients reduced in bf16, fused", params={"grad_reduce_in_bf16": True, **TENSOR}, ranks=4, fused=True),
    Case(name="an optimizer for each replica", params={"use_distributed_optimizer": False}, ranks=2),
    Case(name="fp16 on each replica, fused", params={**FP16, "use_distributed_optimizer": False}, ranks=2, fused=True),
    Case(name="stochastic gradient descent", params={"optimizer": "sgd", "use_distributed_optimizer": False}),
)
