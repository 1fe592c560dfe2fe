"""Hugging Face's names of weights, where TorchTitan's own adapters lack some."""

from __future__ import annotations

from torchtitan.models.qwen3.model import Qwen3Model
from torchtitan.models.qwen3.state_dict_adapter import Qwen3StateDictAdapter


class QwenAdapter(Qwen3StateDictAdapter):
    """Qwen 3 and Qwen 2.5, whose projections to queries, keys and values have a bias."""

    def __init__(self, model_config: Qwen3Model.Config, hf_assets_path: str | None) -> None:
        super().__init__(model_config, hf_assets_path)
        self.from_hf_map |= {
            f"model.layers.{{}}.self_attn.{kind}_proj.bias": f"layers.{{}}.attention.qkv_linear.w{kind}.bias"
            for kind in "qkv"
        }
