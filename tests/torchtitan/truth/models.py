"""Models whose tensors are compared: three small ones, and all that a preset describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import primus_backend_torchtitan
from primus_backend_torchtitan.architecture import layers_with_experts
from primus_core.experiment import Value
from tests.torchtitan.experiments import MOCK
from tests.torchtitan.families import BIASED, DEEPSEEK, MIXTURE
from tests.truth.models import presets_of

DEPTH = 6
SMALL: Mapping[str, Mapping[str, Value]] = {
    "dense": {**MOCK, **BIASED, "num_layers": DEPTH, "ffn_hidden_size": 129, "model.fuse_qkv": False},
    "mixture": {**MOCK, **MIXTURE, "num_layers": DEPTH, "bf16": True},
    "tied": {**MOCK, "untie_embeddings_and_output_weights": False, "bf16": True},
    "latent": {**MOCK, **DEEPSEEK, "num_layers": DEPTH, "moe_layer_freq": f"([0]*2+[1]*{DEPTH - 2})", "bf16": True},
}
"""One of each way to hold weights, with sizes that few numbers of ranks divide."""


def presets() -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Every preset that is a whole model by itself, by name, with an experiment's parameters."""
    return presets_of(primus_backend_torchtitan, "pre_trainer.yaml")


def shallow(params: Mapping[str, Value]) -> Mapping[str, Value]:
    """The same model with one layer of each kind that it has."""
    model: dict[str, Any] = {"moe_layer_freq": 1, **params}
    kinds = layers_with_experts(model)
    kept: list[Value] = [int(kind) for kind in (False, True) if kind in kinds]
    return {**params, "num_layers": len(kept), **({"moe_layer_freq": kept} if any(kinds) else {})}
