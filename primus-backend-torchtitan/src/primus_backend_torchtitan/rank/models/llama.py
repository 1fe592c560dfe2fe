"""A dense Llama of any size."""

from __future__ import annotations

from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.common import ComplexRoPE
from torchtitan.models.llama3 import parallelize_llama
from torchtitan.models.llama3.model import Llama3Model, Llama3TransformerBlock
from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter
from torchtitan.protocols.model_spec import ModelSpec

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.rank.models.parts import Model, ends, feed_forward, grouped_attention, norm


def llama(model: Model) -> ModelSpec:
    """The specification of the model that the portable parameters describe."""
    return ModelSpec(
        name="llama3",
        flavor="primus",
        model=Llama3Model.Config(**ends(model), layers=[_layer(model) for _ in range(size(model, "num_layers"))]),
        parallelize_fn=parallelize_llama,
        pipelining_fn=pipeline_llm,
        post_optimizer_build_fn=None,
        state_dict_adapter=Llama3StateDictAdapter,
    )


def _layer(model: Model) -> Llama3TransformerBlock.Config:
    hidden = size(model, "hidden_size")
    return Llama3TransformerBlock.Config(
        attention_norm=norm(model, hidden),
        ffn_norm=norm(model, hidden),
        attention=grouped_attention(model, ComplexRoPE),
        feed_forward=feed_forward(model),
    )
