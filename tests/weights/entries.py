"""What runs in the ranks of `test_exchange.py`: training, with the logits of one forward pass written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan

PASSES = 8
"""Forward passes of two iterations: the next one is with the weights that were saved after them."""


def megatron(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with Megatron."""
    from megatron.training import argument_utils

    from primus_backend_megatron.rank.train import run

    file, make_config = str(rank.prepared("logits")["file"]), argument_utils.gpt_config_from_args

    def listening(args: Any) -> Any:
        config = make_config(args)
        config.pre_wrap_hooks.append(lambda models: _listen(models, "embedding", "output_layer", file))
        return config

    argument_utils.gpt_config_from_args = listening
    return run(plan, rank)


def torchtitan(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with TorchTitan."""
    from torchtitan.trainer import Trainer

    from primus_backend_torchtitan.rank.train import run

    file, train = str(rank.prepared("logits")["file"]), Trainer.train

    def listening(trainer: Any) -> Any:
        _listen(trainer.model_parts, "tok_embeddings", "lm_head", file)
        return train(trainer)

    Trainer.train = listening
    return run(plan, rank)


def _listen(models: list[Any], first: str, last: str, file: str) -> list[Any]:
    import torch

    (model,) = models
    seen: list[Any] = []

    def tokens(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        seen.append((args[0] if args else kwargs["input_ids"]).clone())

    def logits(module: Any, _: Any, output: Any) -> None:
        if len(seen) != PASSES + 1:
            return
        found = output[0] if isinstance(output, tuple) else output
        found = found.detach().clone()
        # Megatron has the sequence first.
        found = found.transpose(0, 1) if found.shape[0] != seen[-1].shape[0] else found
        torch.save({"tokens": seen[-1], "logits": found}, file)

    getattr(model, first).register_forward_pre_hook(tokens, with_kwargs=True)
    getattr(model, last).register_forward_hook(logits)
    return models
