"""What gloo needs and NCCL does not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def sending_aliases(original: Function) -> Function:
    """Factory for `_p2p_ops`, which exchanges activations: send aliases that keep their storage.

    Megatron frees a sent activation by putting another storage into the same tensor while the send is on its way.
    On a CUDA stream the order of operations makes that harmless; gloo would send the new storage.
    """

    @functools.wraps(original)
    def exchange(*, tensor_send_prev: Any, tensor_send_next: Any, **options: Any) -> Any:
        return original(tensor_send_prev=_alias(tensor_send_prev), tensor_send_next=_alias(tensor_send_next), **options)

    return exchange


def _alias(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach()


def all_to_all_lists(original: Function) -> Function:
    """Factory for `all_to_all_single`: split sizes as lists of int.

    Megatron's MoE dispatcher makes lists of them only for CUDA tensors.
    """

    @functools.wraps(original)
    def all_to_all_single(
        output: Any,
        source: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        *args: Any,
        **options: Any,
    ) -> Any:
        return original(output, source, _list(output_split_sizes), _list(input_split_sizes), *args, **options)

    return all_to_all_single


def _list(sizes: Any) -> list[int] | None:
    return sizes if sizes is None or isinstance(sizes, list) else [int(size) for size in sizes]


def all_gather_unequal(original: Function) -> Function:
    """Factory for `all_gather`: parts of unequal sizes too, each sent by its owner.

    Tensor-parallel ranks that share experts gather as many tokens as each of them was sent.
    """
    from torch import distributed

    @functools.wraps(original)
    def all_gather(parts: list[Any], own: Any, group: Any = None, async_op: bool = False) -> Any:
        if async_op or _equal(parts):
            return original(parts, own, group=group, async_op=async_op)
        parts[distributed.get_rank(group)].copy_(own)
        for rank, part in enumerate(parts):
            if part.numel():
                distributed.broadcast(part, group=group, group_src=rank)
        return None

    return all_gather


def _equal(parts: list[Any]) -> bool:
    return len({part.shape for part in parts}) == 1
