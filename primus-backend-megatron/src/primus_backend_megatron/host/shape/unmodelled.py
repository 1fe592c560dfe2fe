"""Parameters that change what Megatron needs and that no figure follows: a sentence for each that says in which way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.operators_work import is_fused
from primus_core.experiment import Value

Where = Literal["", "experts", "fused", "latent", "tensor"]
"""What a parameter has an effect with: any model, one with experts, Transformer Engine's layers, latent attention,
tensor parallel ranks."""


@frozen
class Unmodelled:
    """Parameters with one sentence, told where one of them is on: neither false, null, 0, a list of such, nor empty."""

    names: tuple[str, ...]
    sentence: str
    off: Value = None
    """Not on either."""
    only: Value = None
    """On with this value alone."""
    where: Where = ""

    def tells(self, case: Case) -> bool:
        """Whether a reader of this case's figures must know."""
        return _is_there(case, self.where) and any(self._is_on(case.values[name]) for name in self.names)

    def _is_on(self, value: Value) -> bool:
        there = any(value) if isinstance(value, list) else bool(value)
        return there and value != self.off and self.only in (None, value)


def _is_there(case: Case, where: Where) -> bool:
    there: Mapping[Where, bool] = {
        "": True,
        "experts": case.shape.experts > 0,
        "fused": is_fused(case),
        "latent": case.on("multi_latent_attention"),
        "tensor": case.size("tensor_model_parallel_size") > 1,
    }
    return there[where]


def unmodelled(case: Case) -> Iterator[str]:
    """The sentences of a case."""
    return (each.sentence for each in TABLE if each.tells(case))


_NUMBERS = (
    Unmodelled(
        ("fp8", "fp4", "te_precision_config_file"),
        "Weights and activations are counted in the format of training, not in 8 or 4 bits: activations too high, and "
        "copies of the weights in fewer bits are not counted.",
    ),
    Unmodelled(
        ("fp32_residual_connection",),
        "What layers pass on is counted in the format of training, not in fp32: too low.",
    ),
    Unmodelled(
        ("ddp_param_name_patterns_for_fp32_local_accumulation", "ddp_reduce_scatter_with_fp32_accumulation"),
        "Copies of gradients that are added up in fp32 are not counted: too low.",
    ),
)
_KERNELS = (
    Unmodelled(
        ("deterministic_mode", "batch_invariant_mode"),
        "Deterministic kernels are counted as the usual ones; whether they need more is not known.",
    ),
    Unmodelled(
        ("reset_attention_mask",),
        "The mask of each sample's documents, a byte for each pair of its tokens, is not counted: too low.",
    ),
)
_OFFLOADED = (
    Unmodelled(
        ("optimizer_cpu_offload",),
        "The optimizer's state is kept in the host's memory, and counted here: too high.",
    ),
    Unmodelled(
        ("fine_grained_activation_offloading", "cpu_offloading_num_layers"),
        "Activations that are moved to the host's memory are counted here: too high.",
    ),
    Unmodelled(
        ("moe_paged_stash",),
        "The pages in which activations of experts are kept are counted as the activations themselves: too low.",
        where="experts",
    ),
)
_REPEATED = (
    Unmodelled(
        ("distribute_saved_activations",),
        "Inputs of recomputed layers are counted whole on each tensor parallel rank: too high.",
        where="tensor",
    ),
    Unmodelled(
        ("mla_down_proj_fusion",),
        "The narrow tensors of latent attention are counted as two products, not as one, which changes little; in "
        "which direction is not known.",
        where="latent",
    ),
    Unmodelled(
        ("fused_residual_rmsnorm",),
        "Norms are counted apart from the additions before them, not in one kernel with them; whether that needs less "
        "is not known.",
        where="fused",
    ),
    Unmodelled(
        ("use_transformer_engine_op_fuser",),
        "What layers that are fused operation by operation save is counted as kept: too high.",
        where="fused",
    ),
)
_SAVED = (
    Unmodelled(
        ("save_params_interval", "save_activations_interval", "save_wgrads_interval", "save_dgrads_interval"),
        "Tensors that are saved to be looked at are not counted beside those that training needs: too low.",
    ),
)
_GRAPHS = (
    Unmodelled(
        ("cuda_graph_impl", "enable_cuda_graph", "external_cuda_graph", "optimizer_cuda_graph"),
        "Inputs, outputs and pools of memory of CUDA graphs are not counted: too low.",
        off="none",
    ),
)
_TOGETHER = (
    Unmodelled(
        ("overlap_moe_expert_parallel_comm",),
        "A second micro batch that runs while the first one's tokens are sent is not counted: too low.",
        where="experts",
    ),
    Unmodelled(
        ("delay_wgrad_compute", "defer_embedding_wgrad_compute", "overlap_dispatch_backward_with_experts_wgrad"),
        "What is kept until the gradients of weights are computed later is not counted: too low.",
    ),
    Unmodelled(
        ("moe_shared_expert_overlap",),
        "Shared experts are counted as if they worked before the others, not beside them: too low.",
        where="experts",
    ),
    Unmodelled(("tp_comm_overlap",), "Buffers of Transformer Engine's own collectives are not counted: too low."),
    Unmodelled(
        ("tensor_parallel_num_weight_shards", "expert_tensor_parallel_num_weight_shards"),
        "Weights are counted as if they were divided over tensor parallel ranks alone: too high.",
    ),
)
_EXPERTS = (
    Unmodelled(
        ("moe_aux_loss_coeff", "moe_z_loss_coeff"),
        "What losses of the router keep is not counted: a little too low.",
        where="experts",
    ),
    Unmodelled(
        ("moe_router_dtype",),
        "What the router computes in fp64 is counted in fp32: a little too low.",
        only="fp64",
        where="experts",
    ),
    Unmodelled(
        ("moe_router_fusion",),
        "The router is counted operation by operation, not as one kernel: a little too high.",
        where="experts",
    ),
    Unmodelled(
        ("moe_permute_fusion",),
        "Tokens are counted as put in order operation by operation, not by one kernel, which changes little; in which "
        "direction is not known.",
        where="experts",
    ),
    Unmodelled(
        ("use_fused_weighted_squared_relu",),
        "Activations of experts are counted operation by operation, not as one kernel: too high.",
        where="experts",
    ),
    Unmodelled(
        ("moe_latent_size",),
        "Experts are counted as if they read the whole hidden size: too high.",
        where="experts",
    ),
    Unmodelled(
        ("moe_input_jitter_eps", "moe_apply_probs_on_input"),
        "A copy of the experts' input that is multiplied first is not counted: too low.",
        where="experts",
    ),
    Unmodelled(
        ("moe_enable_routing_replay", "moe_routing_trace_path"),
        "What is recorded of the routers is not counted: too low.",
        where="experts",
    ),
)
_SENT = (
    Unmodelled(
        ("moe_token_dispatcher_type",),
        "Tokens are counted as if they were sent to their experts alone; all gathered, they need more: too low.",
        only="allgather",
        where="experts",
    ),
    Unmodelled(
        ("moe_token_dispatcher_type",),
        "The buffers through which DeepEP and its like send tokens are kept from the first step on, and not counted: "
        "too low. Tokens are counted as if each was sent once for every expert, not once for every rank: too high.",
        only="flex",
        where="experts",
    ),
    Unmodelled(
        ("moe_expert_capacity_factor", "moe_expert_rank_capacity_factor"),
        "Experts are counted with all tokens, neither dropped nor padded to their capacity: too high where it is below "
        "1, too low where padding exceeds the tokens.",
        where="experts",
    ),
    Unmodelled(
        (
            "moe_pad_expert_input_to_capacity",
            "moe_router_padding_for_fp8",
            "moe_router_padding_for_quantization",
        ),
        "Rows that fill experts up to their capacity, or to whole blocks of small numbers, are not counted: too low.",
        where="experts",
    ),
)
_MODEL = (
    Unmodelled(
        ("attention_output_gate",),
        "The gate of attention's output is not counted, neither its weights nor its activations: too low.",
    ),
    Unmodelled(("qk_l2_norm",), "Norms of queries and keys without weights are not counted: too low."),
    Unmodelled(
        ("softmax_type",),
        "The sink of attention's softmax is not counted, which is a number for each head: too low.",
        off="vanilla",
    ),
    Unmodelled(
        ("use_kitchen_attention",),
        "Attention is counted as that of Transformer Engine; whether that of another package needs more is not known.",
    ),
    Unmodelled(
        ("qk_clip", "log_max_attention_logit"),
        "The largest scores of attention, which are kept for each head, are not counted: a little too low.",
    ),
    Unmodelled(
        ("hybrid_layer_pattern", "hybrid_override_pattern", "heterogeneous_layers_config_path", "spec"),
        "All layers are counted as those that the other parameters describe; whether theirs need more is not known.",
    ),
    Unmodelled(
        ("heterogeneous_layers_config_encoded_json", "mtp_hybrid_override_pattern"),
        "Layers that a description of their own gives are counted as those that the other parameters describe; whether "
        "they need more is not known.",
    ),
    Unmodelled(
        ("mtp_use_repeated_layer",),
        "Each layer of multi-token prediction is counted with weights of its own: too high with several.",
    ),
    Unmodelled(
        ("mtp_detach_heads", "mtp_standalone"), "Multi-token prediction is counted as trained with the model: too high."
    ),
    Unmodelled(
        ("mlp_chunks_for_training",), "The feed-forward part is counted as if it ran in one piece: too high.", off=1
    ),
    Unmodelled(
        ("openai_gelu", "apply_residual_connection_post_layernorm"),
        "Activations are counted as those of the usual layer: a little too low.",
    ),
    Unmodelled(("freeze_all_layers",), "Gradients and the optimizer's state are counted of all weights: too high."),
    Unmodelled(
        ("logits_load_dir",),
        "Copies of logits that are compared with are not counted: too low.",
    ),
)

TABLE = (*_NUMBERS, *_KERNELS, *_OFFLOADED, *_REPEATED, *_SAVED, *_GRAPHS, *_TOGETHER, *_EXPERTS, *_SENT, *_MODEL)
