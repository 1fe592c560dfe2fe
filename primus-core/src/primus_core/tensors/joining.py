"""A back end's tensor from Hugging Face's, and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch

from primus_core.weights.table import Weight


def joined(weight: Weight, parts: Sequence[Any]) -> Any:
    """The back end's tensor of the whole parts, or of the same share of each."""
    if weight.pairs:
        parts = [_to_pairs(part, weight.head_size) for part in parts]
    if weight.join == "one":
        return parts[0]
    if weight.join == "stacked":
        return torch.cat(list(parts))
    rest = parts[0].shape[1:]
    groups = parts[1].shape[0] // weight.head_size
    return torch.cat([part.reshape(groups, -1, *rest) for part in parts], 1).reshape(-1, *rest)


def parted(weight: Weight, tensor: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Hugging Face's tensors, of these shapes, of the back end's; rows of padding are left out."""
    if weight.join == "one":
        parts = [tensor[: shapes[0][0]]]
    elif weight.join == "stacked":
        parts = list(tensor.split([shape[0] for shape in shapes]))
    else:
        groups, rest = shapes[1][0] // weight.head_size, tensor.shape[1:]
        rows = [shape[0] // groups for shape in shapes]
        ends = [0, *accumulate(rows)]
        grouped = tensor.reshape(groups, sum(rows), *rest)
        parts = [grouped[:, begin:end].reshape(-1, *rest) for begin, end in pairwise(ends)]
    return [_to_halves(part, weight.head_size) for part in parts] if weight.pairs else parts


def _to_pairs(part: Any, size: int) -> Any:
    """Rows of a head from (first halves, second halves) to pairs of one of each."""
    rest = part.shape[1:]
    return part.reshape(-1, 2, size // 2, *rest).transpose(1, 2).reshape(-1, *rest)


def _to_halves(part: Any, size: int) -> Any:
    rest = part.shape[1:]
    return part.reshape(-1, size // 2, 2, *rest).transpose(1, 2).reshape(-1, *rest)
