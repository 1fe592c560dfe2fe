"""One micro batch: from the data iterator through the model to the loss."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from primus_backend_megatron.rank.data import stage_keys

if TYPE_CHECKING:
    from torch import Tensor

Batch = dict[str, "Tensor | None"]
_KEYS = ("tokens", "position_ids", "labels", "loss_mask", "attention_mask")


def forward_step(data: Iterator[Batch] | None, model: Any) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """What Megatron's schedules call: the model's output and the function that makes a loss of it."""
    from megatron.core.utils import get_attr_wrapped_model
    from megatron.training import get_args, get_timers

    args = get_args()
    timers = get_timers()
    timers("batch-generator", log_level=2).start()
    batch = next_batch(args, data, get_attr_wrapped_model(model, "vp_stage"), training=model.training)
    timers("batch-generator").stop()
    output = model(
        batch["tokens"],
        batch["position_ids"],
        batch["attention_mask"],
        labels=batch["labels"],
        loss_mask=batch["loss_mask"],
    )
    return output, partial(loss, args, batch["loss_mask"])


def next_batch(args: Namespace, data: Iterator[Batch] | None, vp_stage: int | None, *, training: bool) -> Batch:
    """The part of the next micro batch that this rank computes on; None for what its stage does not use."""
    from megatron.core import mpu
    from megatron.core.utils import get_batch_on_this_cp_rank

    keys = stage_keys(args, vp_stage)
    read = next(data) if data is not None and mpu.get_tensor_model_parallel_rank() == 0 else {}
    batch: Batch = dict.fromkeys(_KEYS)
    size = args.micro_batch_size if training else args.eval_micro_batch_size
    for key in keys:
        batch[key] = _on_device(read[key]) if read else _empty(key, size, args.seq_length)
    if mpu.get_tensor_model_parallel_world_size() > 1:
        _broadcast(batch, keys)
    if args.context_parallel_size > 1:
        group = mpu.get_context_parallel_group()
        batch = get_batch_on_this_cp_rank(batch, is_hybrid_cp=False, cp_group=group)
    return batch


def loss(args: Namespace, mask: Tensor, output: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Sum of the token losses of a micro batch, its number of tokens, and both together for the report.

    Megatron divides: by this micro batch's tokens and the number of micro batches, or, with
    ``calculate_per_token_loss``, once by all tokens of the global batch. The reported loss is always the mean over
    all unmasked tokens of the global batch.

    Raises:
        RuntimeError: the loss is not finite and ``check_for_nan_in_loss_and_grad`` is on.
    """
    import torch

    weights = mask.reshape(-1).float()
    total = torch.sum(output.reshape(-1).float() * weights)
    if args.check_for_nan_in_loss_and_grad:
        _refuse(total, torch.isnan, "found NaN in the local forward loss")
        _refuse(total, torch.isinf, "found an infinite local forward loss")
    count = weights.sum().detach().to(torch.int)
    report = torch.stack([total.detach(), count.to(total.dtype)])
    return total, count, {"lm loss": report}


def _refuse(total: Tensor, reject: Callable[[Tensor], Tensor], message: str) -> None:
    """Through Megatron's own machine, which can repeat the step to tell broken hardware from a broken model."""
    from megatron.core.rerun_state_machine import get_rerun_state_machine

    get_rerun_state_machine().validate_result(
        result=total, rejection_func=reject, message=message, tolerance=0.0, fatal=True
    )


def _on_device(tensor: Tensor | None) -> Tensor | None:
    import torch

    return None if tensor is None else tensor.to(torch.cuda.current_device(), non_blocking=True)


def _empty(key: str, size: int, length: int) -> Tensor:
    """Room for one part of a micro batch that another rank of the tensor-parallel group read."""
    import torch

    shape = (size, 1, length, length) if key == "attention_mask" else (size, length)
    dtype = {"attention_mask": torch.bool, "loss_mask": torch.float32}.get(key, torch.int64)
    return torch.empty(shape, dtype=dtype, device=torch.cuda.current_device())


def _broadcast(batch: Batch, keys: tuple[str, ...]) -> None:
    from megatron.core import mpu
    from torch import distributed

    source = mpu.get_tensor_model_parallel_src_rank()
    for key in keys:
        distributed.broadcast(batch[key], source, group=mpu.get_tensor_model_parallel_group())
