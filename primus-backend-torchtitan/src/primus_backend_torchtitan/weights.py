"""TorchTitan's weights of a dense model, and how they are made of Hugging Face's. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from primus_backend_torchtitan.architecture import DEFAULTS
from primus_backend_torchtitan.checkpoints import NAMING
from primus_core.checkpoints.torchfile import Tensor
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.weights import huggingface
from primus_core.weights.architecture import Dense, dense
from primus_core.weights.table import Kept, Weight

CONTRACT = 1

_ENDS = {
    "tok_embeddings.weight": huggingface.EMBEDDING,
    "norm.weight": huggingface.NORM,
    "lm_head.weight": huggingface.OUTPUT,
}
_WITHIN = {
    "attention_norm.weight": "input_layernorm.weight",
    **{f"attention.qkv_linear.w{name}.weight": f"self_attn.{name}_proj.weight" for name in "qkv"},
    **{f"attention.qkv_linear.w{name}.bias": f"self_attn.{name}_proj.bias" for name in "qkv"},
    "attention.wo.weight": "self_attn.o_proj.weight",
    "attention.q_norm.weight": "self_attn.q_norm.weight",
    "attention.k_norm.weight": "self_attn.k_norm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "feed_forward.w1.weight": "mlp.gate_proj.weight",
    "feed_forward.w3.weight": "mlp.up_proj.weight",
    "feed_forward.w2.weight": "mlp.down_proj.weight",
}
"""Of a layer: Hugging Face's tensor of each weight, as both keep them in a state dictionary."""
_ROTATED = tuple(f"attention.qkv_linear.w{name}." for name in "qk")
_LAYERS = "layers."


def model_values(plan: RunPlan) -> Mapping[str, Value]:
    """The parameters of a run's model, by portable names."""
    native = plan.translation.native if plan.translation else {}
    return {**DEFAULTS, **{name[6:]: value for name, value in native.items() if name.startswith("model.")}}


def weight(name: str, model: Dense) -> Weight:
    """One weight by TorchTitan's name.

    Raises:
        KeyError: a dense model has none of this name.
    """
    if name in _ENDS:
        tied = name == "lm_head.weight" and model.tied
        part = huggingface.EMBEDDING if tied else _ENDS[name]
        return Weight(name=name, parts=(part,), axis=0, rows=None if part == huggingface.NORM else model.rows)
    number, _, within = name.removeprefix(_LAYERS).partition(".")
    part = f"model.layers.{number}.{_WITHIN[within]}"
    # TorchTitan's Llama computes with complex numbers, its Qwen as Hugging Face does.
    pairs = within.startswith(_ROTATED) and not (model.qkv_bias or model.qk_norm)
    return Weight(name=name, parts=(part,), head_size=model.head_size, pairs=pairs)


class TitanCodec:
    """The codec of TorchTitan's checkpoints."""

    def model(self, plan: RunPlan) -> Dense:
        return dense(model_values(plan))

    def folder(self, plan: RunPlan) -> str | None:
        folder = plan.translation.native.get("checkpoint.folder") if plan.translation else None
        return folder if isinstance(folder, str) and folder else None

    def checkpoints(self, folder: str) -> Mapping[int, Path]:
        found = sorted(NAMING.marked(folder), key=lambda item: (item.written, item.iteration))
        return {item.iteration: item.folder for item in found}

    def kept(self, model: Dense, tensors: Mapping[str, Tensor]) -> tuple[Kept, ...]:
        ours = {part: name for name, part in _ENDS.items()} | {part: name for name, part in _WITHIN.items()}
        names = []
        for part in huggingface.tensors(model):
            _, _, rest = part.partition("model.layers.")
            number, _, within = rest.partition(".")
            name = f"{_LAYERS}{number}.{ours[within]}" if rest else ours[part]
            if name not in tensors:
                raise KeyError(name)
            names.append(name)
        return tuple(Kept(weight=weight(name, model), name=name) for name in names)


CODEC = TitanCodec()
