"""Floating-point operations of TorchTitan's own model, as PyTorch counts them while it runs forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from torchtitan.config import TORCH_DTYPE_MAP
from torchtitan.distributed import utils as library
from torchtitan.tools import utils

from primus_backend_torchtitan.rank.config import build_config
from tests.torchtitan.truth.building import alone


def _grouped(left: Any, right: Any, *args: Any, out_shape: Any = None, **options: Any) -> int:
    """A product of tokens with a matrix for each group of them, or of the tokens of each group with each other."""
    return int(2 * left[-2] * left[-1] * right[-1])


def _attention(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **options: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **options: Any
) -> int:
    """Without the scores that the kernel computes again."""
    return int(2 * sdpa_flop_count(query, key, value))


def _mapping() -> dict[Any, Any]:
    """What PyTorch has no formula for."""
    aten = torch.ops.aten
    return {
        aten._grouped_mm: _grouped,
        aten._scaled_dot_product_flash_attention_for_cpu: _attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    }


def counted(case: Mapping[str, Any]) -> int:
    """Of one micro batch of a model on one rank; nothing is kept to save memory, and the loss is no more than a sum."""
    counter = FlopCounterMode(display=False, custom_mapping=_mapping())
    with alone(0, 1), FakeTensorMode(allow_non_fake_inputs=True):
        config = build_config(case["native"], case["version"])
        library.set_spmd_backend(config.parallelism.spmd_backend)
        config.model_spec.model.update_from_config(config=config)
        with utils.set_default_dtype(TORCH_DTYPE_MAP[config.training.mixed_precision_param]):
            model = config.model_spec.model.build()
        size = (config.training.local_batch_size, config.training.seq_len)
        tokens, positions = (torch.zeros(size, dtype=torch.int64) for _ in range(2))
        with counter:
            model(tokens, positions, model.get_attention_masks(positions)).sum().backward()
    return int(counter.get_total_flops())
