"""Megatron's weights of a dense model, and how they are made of Hugging Face's. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from primus_backend_megatron.checkpoints import NAMING
from primus_backend_megatron.host.schema import schema_for
from primus_core.checkpoints.torchfile import Tensor
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.weights import huggingface
from primus_core.weights.architecture import Dense, dense
from primus_core.weights.table import Join, Kept, Weight

CONTRACT = 1

TORCH_DIST = "checkpoints that were saved with ckpt_format: torch_dist can be exported"

EMBEDDING, NORM, OUTPUT = (
    "embedding.word_embeddings.weight",
    "decoder.final_layernorm.weight",
    "output_layer.weight",
)
LAYERS = "decoder.layers."

_WITHIN: Mapping[str, tuple[tuple[str, ...], Join, int | None]] = {
    "input_layernorm.weight": (("input_layernorm.weight",), "one", None),
    "self_attention.linear_qkv.weight": (
        tuple(f"self_attn.{name}_proj.weight" for name in "qkv"),
        "grouped",
        0,
    ),
    "self_attention.linear_qkv.bias": (tuple(f"self_attn.{name}_proj.bias" for name in "qkv"), "grouped", 0),
    "self_attention.linear_proj.weight": (("self_attn.o_proj.weight",), "one", 1),
    "self_attention.q_layernorm.weight": (("self_attn.q_norm.weight",), "one", None),
    "self_attention.k_layernorm.weight": (("self_attn.k_norm.weight",), "one", None),
    "pre_mlp_layernorm.weight": (("post_attention_layernorm.weight",), "one", None),
    "mlp.linear_fc1.weight": (("mlp.gate_proj.weight", "mlp.up_proj.weight"), "stacked", 0),
    "mlp.linear_fc2.weight": (("mlp.down_proj.weight",), "one", 1),
}
"""Of a layer: Hugging Face's tensors of each weight, how they are joined, and the axis that ranks divide."""

_FUSED = {
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "mlp.linear_fc1.layer_norm_weight": "pre_mlp_layernorm.weight",
}
"""What Transformer Engine's layers, and all checkpoints, call the normalizations before a projection."""


def model_values(plan: RunPlan) -> Mapping[str, Value]:
    """The parameters of a run's model, which Megatron names as every back end does."""
    native = plan.translation.native if plan.translation else {}
    return {**schema_for(plan.target.library_version).defaults, **native}


def weight(name: str, model: Dense) -> Weight:
    """One weight by Megatron's name, with the number of the layer in the whole model.

    Raises:
        KeyError: a dense model has none of this name.
    """
    if name in (EMBEDDING, OUTPUT):
        # Where the two are one, the last stage of a pipeline has a copy under the other name.
        part = huggingface.OUTPUT if name == OUTPUT and not model.tied else huggingface.EMBEDDING
        return Weight(name=name, parts=(part,), axis=0, rows=model.rows)
    if name == NORM:
        return Weight(name=name, parts=(huggingface.NORM,))
    number, _, within = name.removeprefix(LAYERS).partition(".")
    parts, join, axis = _WITHIN[_FUSED.get(within, within)]
    theirs = tuple(f"model.layers.{number}.{part}" for part in parts)
    return Weight(name=name, parts=theirs, join=join, axis=axis, head_size=model.head_size)


def _names(model: Dense) -> list[str]:
    absent = set() if model.qkv_bias else {"self_attention.linear_qkv.bias"}
    if not model.qk_norm:
        absent |= {f"self_attention.{part}_layernorm.weight" for part in "qk"}
    layer = [name for name in _WITHIN if name not in absent]
    layers = [f"{LAYERS}{number}.{name}" for number in range(model.layers) for name in layer]
    return [EMBEDDING, *layers, NORM, *([] if model.tied else [OUTPUT])]


class MegatronCodec:
    """The codec of Megatron's checkpoints of global tensors (``torch_dist``)."""

    def model(self, plan: RunPlan) -> Dense:
        return dense(model_values(plan))

    def folder(self, plan: RunPlan) -> str | None:
        save = model_values(plan)["save"]
        return save if isinstance(save, str) and save else None

    def checkpoints(self, folder: str) -> Mapping[int, Path]:
        found = sorted(NAMING.marked(folder), key=lambda item: (item.written, item.iteration))
        return {item.iteration: item.folder for item in found}

    def kept(self, model: Dense, tensors: Mapping[str, Tensor]) -> tuple[Kept, ...]:
        if not any(name.startswith(LAYERS) for name in tensors):
            raise ConfigError("the checkpoint does not hold Megatron's tensors as a whole", remedy=TORCH_DIST)
        return tuple(_kept(weight(name, model), tensors) for name in _names(model))


def _kept(one: Weight, tensors: Mapping[str, Tensor]) -> Kept:
    """The layers' weights are in one tensor for all layers, or in one for each."""
    if not one.name.startswith(LAYERS):
        return Kept(weight=one, name=_present([one.name], tensors))
    number, _, within = one.name.removeprefix(LAYERS).partition(".")
    spellings = [within, *(fused for fused, plain in _FUSED.items() if plain == within)]
    stacked = [f"{LAYERS}{name}" for name in spellings]
    name = _present([*stacked, *(f"{LAYERS}{number}.{name}" for name in spellings)], tensors)
    return Kept(weight=one, name=name, layer=int(number) if name in stacked else None)


def _present(names: list[str], tensors: Mapping[str, Tensor]) -> str:
    found = next((name for name in names if name in tensors), None)
    if found is None:
        raise KeyError(names[0])
    return found


CODEC = MegatronCodec()
