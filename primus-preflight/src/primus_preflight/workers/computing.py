"""Tests of one device alone: products of matrices, copies in its memory, a training step. Each is verified."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from primus_preflight.kernels.device import DTYPES
from primus_preflight.kernels.timing import repeat

_HEADS = 8

Parts = tuple[Callable[[], object], Callable[[], str], float]
"""The work, what is wrong with its result (empty: nothing), and the operations or bytes of it."""


def compute(request: Mapping[str, Any], device: torch.device, stage: Callable[[str], None]) -> Mapping[str, Any]:
    """Run one test.

    Args:
        request: ``work``, ``warmup``, ``iterations``, ``gemm_size``, ``dtype``, ``memory_bytes``.
    """
    torch.manual_seed(0)
    work, fault, amount = _PARTS[request["work"]](request, device)
    stage("run")
    seconds = repeat(work, device, warmup=request["warmup"], iterations=request["iterations"])
    return {"seconds": seconds, "amount": amount, "wrong": fault()}


def _gemm(request: Mapping[str, Any], device: torch.device) -> Parts:
    """Small whole numbers, whose sums of products are exact up to the rounding of the result."""
    size, dtype = request["gemm_size"], DTYPES[request["dtype"]]
    left, right = (torch.randint(-2, 3, (size, size), device=device).to(dtype) for _ in range(2))
    product = torch.empty((size, size), device=device, dtype=dtype)

    def fault() -> str:
        """Freivalds' check: the product times a vector is compared with the factors times it, one after the other."""
        vector = torch.randint(0, 2, (size, 1), device=device).double() * 2 - 1
        expected = left.double() @ (right.double() @ vector)
        allowed = product.double().abs().sum(dim=1, keepdim=True) * torch.finfo(dtype).eps + 1e-6
        rows = int(((product.double() @ vector - expected).abs() > allowed).sum())
        return f"{rows} of {size} rows of the product are wrong" if rows else ""

    return lambda: torch.matmul(left, right, out=product), fault, 2.0 * size**3


def _hbm(request: Mapping[str, Any], device: torch.device) -> Parts:
    source = torch.arange(request["memory_bytes"] // 4, device=device, dtype=torch.int32)
    target = torch.zeros_like(source)

    def fault() -> str:
        different = int((source != target).sum())
        return f"{different} of {len(source)} words of the copy are wrong" if different else ""

    return lambda: target.copy_(source), fault, 2.0 * source.nbytes


def _train_step(request: Mapping[str, Any], device: torch.device) -> Parts:
    """A transformer block, a quarter of the matrices wide: forward, backward, optimizer."""
    width, tokens = max(_HEADS, request["gemm_size"] // 4 // _HEADS * _HEADS), max(16, request["gemm_size"] // 4)
    dtype = DTYPES[request["dtype"]]
    block = _Block(width, device, dtype)
    optimizer = torch.optim.SGD(block.weights, lr=1e-3)
    batch = torch.randn(1, tokens, width, device=device).to(dtype)
    begin = [weight.detach().clone() for weight in block.weights]
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad()
        loss = functional.mse_loss(block(batch).float(), batch.float())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    def fault() -> str:
        """The same step from the same weights has to give the same loss."""
        with torch.no_grad():
            for weight, first in zip(block.weights, begin, strict=True):
                weight.copy_(first)
        step()
        once, again = float(losses[0]), float(losses[-1])
        if not all(math.isfinite(float(loss)) for loss in losses):
            return "the loss is not finite"
        return "" if math.isclose(once, again, rel_tol=1e-3) else f"the same step gave loss {once:g}, then {again:g}"

    parameters = sum(weight.numel() for weight in block.weights)
    return step, fault, 6.0 * parameters * tokens + 6.0 * tokens * tokens * width


class _Block:
    """Causal attention and a feed-forward part, as every decoder has them."""

    def __init__(self, width: int, device: torch.device, dtype: torch.dtype) -> None:
        shapes = [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
        self.weights = [torch.randn(shape, device=device, dtype=dtype) * width**-0.5 for shape in shapes]
        for weight in self.weights:
            weight.requires_grad_()

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        samples, tokens, width = batch.shape
        inputs, outputs, up, down = self.weights
        heads = functional.linear(batch, inputs).view(samples, tokens, 3, _HEADS, width // _HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        batch = batch + functional.linear(seen.transpose(1, 2).reshape(samples, tokens, width), outputs)
        return batch + functional.linear(functional.gelu(functional.linear(batch, up)), down)


_PARTS: Mapping[str, Callable[[Mapping[str, Any], torch.device], Parts]] = {
    "gemm": _gemm,
    "hbm": _hbm,
    "train_step": _train_step,
}
