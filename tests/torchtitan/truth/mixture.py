"""What TorchTitan's own mixture of experts keeps and needs at its most, on tensors without values."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torchtitan.config import TORCH_DTYPE_MAP
from torchtitan.distributed import utils as library
from torchtitan.tools import utils

from primus_backend_torchtitan.rank.config import build_config
from tests.torchtitan.truth.building import alone
from tests.truth.sharded import ShardedLive


def measured(case: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of one rank alone, without weights: `forward` and `backward` at their most, and `kept` between them."""
    with alone(0, 1), torch.autograd.set_multithreading_enabled(False), FakeTensorMode(allow_non_fake_inputs=True):
        config = build_config(case["native"], case["version"])
        library.set_spmd_backend(config.parallelism.spmd_backend)
        model = config.model_spec.model
        model.update_from_config(config=config)
        dtype = TORCH_DTYPE_MAP[config.training.mixed_precision_param]
        with utils.set_default_dtype(dtype):
            mixture = next(layer.moe for layer in model.layers if layer.moe is not None).build()
        size = (config.training.local_batch_size, config.training.seq_len, model.dim)
        return _passes(mixture, torch.zeros(size, dtype=dtype, requires_grad=True))


def _passes(mixture: Any, source: Any) -> dict[str, int]:
    weights = sum(weight.numel() * weight.element_size() for weight in mixture.parameters())
    one = source.numel() * source.element_size()
    live = ShardedLive()
    with live:
        start = live.restart() + weights
        made = mixture(source)
        gc.collect()
        forward, kept = live.peak - start, live.current - start
        gradient = torch.ones_like(made)
        live.restart()
        made.backward(gradient)
    # What it made, and the gradient of that, are held here to the end.
    return {"forward": forward, "kept": kept, "backward": live.peak - start - 2 * one}
