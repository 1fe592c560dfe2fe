"""Tensors of each part of a model, as Megatron registers them."""

from __future__ import annotations

from attrs import evolve

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.layers import EXPERTS, kinds_of, norms_with_loss, predicts_with_loss
from primus_core.shape import DType, Group, Parameter

Axes = tuple[Group | None, ...]

_COLUMN: Axes = ("tensor",)
_PIPELINE = "pipeline_model_parallel_size"
_FIRST, _PREDICTED, _LAST = -1, 1, 2
"""The order in which Megatron registers an embedding, the layers with their norm, further layers and the output."""
_ROW: Axes = (None, "tensor")


def dtype_of(case: Case) -> DType:
    """Of the weights that the forward pass computes with."""
    return "bf16" if case.on("bf16") else "fp16" if case.on("fp16") else "fp32"


class Tensors:
    """Makes parameters of one model."""

    def __init__(self, case: Case) -> None:
        self.case, self.shape = case, case.shape
        self.dtype = dtype_of(case)
        self.bias = case.on("add_bias_linear")

    def whole(self, name: str, *sizes: int) -> Parameter:
        """On every tensor parallel rank."""
        return Parameter(name=name, shape=sizes, dtype=self.dtype)

    def column(self, name: str, outputs: int, inputs: int, biased: bool = False) -> list[Parameter]:
        """Its outputs are divided."""
        weight = Parameter(name=f"{name}.weight", shape=(outputs, inputs), dtype=self.dtype, axes=_COLUMN)
        bias = Parameter(name=f"{name}.bias", shape=(outputs,), dtype=self.dtype, axes=_COLUMN)
        return [weight, bias] if biased else [weight]

    def row(self, name: str, outputs: int, inputs: int, biased: bool = False) -> list[Parameter]:
        """Its inputs are divided; the bias is whole."""
        weight = Parameter(name=f"{name}.weight", shape=(outputs, inputs), dtype=self.dtype, axes=_ROW)
        return [weight, self.whole(f"{name}.bias", outputs)] if biased else [weight]

    def norm(self, name: str, width: int) -> list[Parameter]:
        """A weight, and a bias where the norm has one."""
        biased = self.case.values["normalization"] == "LayerNorm"
        return [self.whole(f"{name}.{kind}", width) for kind in (("weight", "bias") if biased else ("weight",))]


def embedding(tensors: Tensors) -> tuple[Parameter, ...]:
    """The first block's."""
    words = evolve(_words(tensors), apart=_copied(tensors.case) and tensors.case.size(_PIPELINE) > 1)
    if tensors.case.values["position_embedding_type"] != "learned_absolute":
        return (words,)
    return (words, _positions(tensors))


def _words(tensors: Tensors) -> Parameter:
    (words,) = tensors.column("embedding.word_embeddings", tensors.shape.vocabulary, tensors.shape.hidden)
    return words


def _positions(tensors: Tensors) -> Parameter:
    length = tensors.case.size("max_position_embeddings", tensors.shape.sequence)
    return tensors.whole("embedding.position_embeddings.weight", length, tensors.shape.hidden)


def _copied(case: Case) -> bool:
    """The last stage has the embedding too, for the output or to predict further tokens."""
    return case.shape.tied_embeddings or case.on("mtp_num_layers")


def head(tensors: Tensors) -> tuple[Parameter, ...]:
    """The last block's. A tied output layer on another stage than the embedding is a copy of it."""
    case, shape = tensors.case, tensors.shape
    staged, tied = case.size(_PIPELINE) > 1, shape.tied_embeddings
    norm = final_norm(tensors) if norms_with_loss(case) else ()
    (weight,) = tensors.column("output_layer", shape.vocabulary, shape.hidden)
    predicts = staged and predicts_with_loss(case)
    weight = evolve(weight, order=_LAST, shared=tied, apart=tied and not predicts)
    copy = second_embedding(tensors) if predicts else ()
    return (*copy, *norm, *(() if tied and not staged else (weight,)))


def final_norm(tensors: Tensors) -> tuple[Parameter, ...]:
    """Of the model's last layer."""
    return tuple(tensors.norm("decoder.final_layernorm", tensors.shape.hidden))


def second_embedding(tensors: Tensors) -> tuple[Parameter, ...]:
    """Of the stage that predicts further tokens, where it is not the first."""
    words = evolve(_words(tensors), shared=True, apart=True, order=_FIRST)
    if tensors.case.values["position_embedding_type"] != "learned_absolute":
        return (words,)
    return (words, evolve(_positions(tensors), shared=True, order=_FIRST))


def layer(tensors: Tensors) -> tuple[Parameter, ...]:
    """A layer with a dense feed-forward part."""
    return (*_attention(tensors), *_dense(tensors, "mlp", tensors.shape.ffn_hidden, tensors.bias))


def expert_layer(tensors: Tensors) -> tuple[Parameter, ...]:
    """A layer with experts."""
    case, shape = tensors.case, tensors.shape
    router = [tensors.whole("mlp.router.weight", shape.experts, shape.hidden)]
    if case.on("add_bias_linear"):
        router.append(tensors.whole("mlp.router.bias", shape.experts))
    return (*_attention(tensors), *router, *_experts(tensors), *_shared(tensors))


def expert_buffers(tensors: Tensors) -> tuple[Parameter, ...]:
    """What keeps the experts' load equal without a loss."""
    if not tensors.case.on("moe_router_enable_expert_bias"):
        return ()
    dtypes: dict[str, DType] = {"local_tokens_per_expert": tensors.dtype, "expert_bias": "fp32"}
    sizes = (tensors.shape.experts,)
    return tuple(Parameter(name=f"mlp.router.{name}", shape=sizes, dtype=dtype) for name, dtype in dtypes.items())


def rotations(tensors: Tensors) -> tuple[Parameter, ...]:
    """Angles of positions, which each layer of latent attention has for itself with YaRN."""
    case = tensors.case
    if not case.on("multi_latent_attention") or case.values.get("rope_type", "yarn") == "rope":
        return ()
    sizes = (case.size("yarn_original_max_position_embeddings", 4096), case.size("qk_pos_emb_head_dim", 64))
    names = (f"self_attention.rotary_pos_emb.{name}_cached" for name in ("cos", "sin"))
    divided: Axes = ("context",)
    return tuple(Parameter(name=name, shape=sizes, dtype=tensors.dtype, axes=divided) for name in names)


def _dense(tensors: Tensors, name: str, width: int, biased: bool) -> list[Parameter]:
    hidden, gate = tensors.shape.hidden, 2 if tensors.shape.gated_mlp else 1
    return [
        *tensors.column(f"{name}.linear_fc1", gate * width, hidden, biased),
        *tensors.row(f"{name}.linear_fc2", hidden, width, biased),
    ]


def _experts(tensors: Tensors) -> list[Parameter]:
    """Each rank's own, one tensor for each; how they are called depends on how they are computed."""
    case, shape = tensors.case, tensors.shape
    hidden, width, gate = shape.hidden, shape.moe_ffn_hidden, 2 if shape.gated_mlp else 1
    biased = tensors.bias
    first: Axes = ("expert_tensor",)
    second: Axes = (None, "expert_tensor")
    found = []
    for index in range(shape.experts // case.size("expert_model_parallel_size")):
        for part, sizes, axes in (
            ("linear_fc1", (gate * width, hidden), first),
            ("linear_fc2", (hidden, width), second),
        ):
            found.append(_expert(tensors, expert_name(case, index, part, "weight"), sizes, axes))
            if biased:
                own = axes if part == "linear_fc1" else ()
                found.append(_expert(tensors, expert_name(case, index, part, "bias"), sizes[:1], own))
    return found


def expert_name(case: Case, index: int, part: str, kind: str) -> str:
    """Of one expert's tensor."""
    if case.on("moe_grouped_gemm"):
        return f"mlp.experts.{part}.{kind}{index}"
    return f"mlp.experts.local_experts.{index}.{part}.{kind}"


def _expert(tensors: Tensors, name: str, sizes: tuple[int, ...], axes: Axes) -> Parameter:
    """With FSDP2 all ranks that share data have shards of it, as of every other weight."""
    apart = not tensors.case.on("use_torch_fsdp2")
    return Parameter(name=name, shape=sizes, dtype=tensors.dtype, axes=axes, spread="expert", expert=apart)


def _shared(tensors: Tensors) -> list[Parameter]:
    width = tensors.case.size("moe_shared_expert_intermediate_size", 0)
    if not width:
        return []
    found = _dense(tensors, "mlp.shared_experts", width, False)
    if tensors.case.on("moe_shared_expert_gate"):
        found.append(tensors.whole("mlp.shared_experts.gate_weight", 1, tensors.shape.hidden))
    return found


def _attention(tensors: Tensors) -> list[Parameter]:
    hidden = tensors.shape.hidden
    inner = _latent(tensors) if tensors.case.on("multi_latent_attention") else _heads(tensors)
    return [*tensors.norm("input_layernorm", hidden), *inner, *tensors.norm("pre_mlp_layernorm", hidden)]


def _heads(tensors: Tensors) -> list[Parameter]:
    case, shape = tensors.case, tensors.shape
    queries, keys = shape.heads * shape.head_size, shape.query_groups * shape.head_size
    biased = tensors.bias or case.on("add_qkv_bias")
    return [
        *tensors.row("self_attention.linear_proj", shape.hidden, queries, tensors.bias),
        *tensors.column("self_attention.linear_qkv", queries + 2 * keys, shape.hidden, biased),
        *(tensors.norm("self_attention.q_layernorm", shape.head_size) if case.on("qk_layernorm") else ()),
        *(tensors.norm("self_attention.k_layernorm", shape.head_size) if case.on("qk_layernorm") else ()),
    ]


def _latent(tensors: Tensors) -> list[Parameter]:
    """Multi-latent attention. Transformer Engine's layers have the projections down whole on every rank."""
    case, shape = tensors.case, tensors.shape
    hidden, heads, down = shape.hidden, shape.heads, case.size("q_lora_rank", 0)
    nope, rope = case.size("qk_head_dim", 128), case.size("qk_pos_emb_head_dim", 64)
    value, rank = case.size("v_head_dim", 128), case.size("kv_lora_rank", 32)
    whole = case.values["transformer_impl"] == "transformer_engine"

    def projection(name: str, outputs: int) -> list[Parameter]:
        if whole:
            return [tensors.whole(f"self_attention.{name}.weight", outputs, hidden)]
        return tensors.column(f"self_attention.{name}", outputs, hidden)

    query = heads * (nope + rope)
    queries = (
        [*projection("linear_q_down_proj", down), *tensors.column("self_attention.linear_q_up_proj", query, down)]
        if down
        else tensors.column("self_attention.linear_q_proj", query, hidden)
    )
    normed = case.on("qk_layernorm")
    return [
        *tensors.row("self_attention.linear_proj", hidden, heads * value, tensors.bias),
        *queries,
        *projection("linear_kv_down_proj", rank + rope),
        *tensors.column("self_attention.linear_kv_up_proj", heads * (nope + value), rank),
        *(tensors.norm("self_attention.q_layernorm", down) if normed and down else ()),
        *(tensors.norm("self_attention.kv_layernorm", rank) if normed else ()),
    ]


def prediction(tensors: Tensors) -> tuple[Parameter, ...]:
    """For each token further on: two norms, a projection of both inputs, a layer like the model's last, a norm."""
    hidden, case = tensors.shape.hidden, tensors.case
    inner = expert_layer(tensors) if kinds_of(case)[-1] == EXPERTS else layer(tensors)
    parts = (
        *tensors.norm("enorm", hidden),
        *tensors.norm("hnorm", hidden),
        *tensors.column("eh_proj", hidden, 2 * hidden),
        *inner,
        *tensors.norm("final_layernorm", hidden),
    )
    return (
        *(() if predicts_with_loss(case) else second_embedding(tensors)),
        *(evolve(one, order=_PREDICTED) for one in parts * case.size("mtp_num_layers")),
    )
