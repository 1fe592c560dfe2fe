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
_VECTOR_BITS = 20
_DEVIATIONS = 9.0
_SAME = 1e-3
"""Relative difference of two steps' figures, of which kernels may add up the parts in another order."""

Parts = tuple[Callable[[], object], Callable[[], object], Callable[[], str], float]
"""What comes before each repetition so that nothing of the last one remains, the work, what is wrong with its result
(empty: nothing), and the operations or bytes of it."""


def compute(request: Mapping[str, Any], device: torch.device, stage: Callable[[str], None]) -> Mapping[str, Any]:
    """Run one test; each repetition is verified.

    Args:
        request: ``work``, ``warmup``, ``iterations``, ``gemm_size``, ``dtype``, ``memory_bytes``.
    """
    torch.manual_seed(0)
    prepare, work, fault, amount = _PARTS[request["work"]](request, device)
    stage("run")
    for _ in range(request["warmup"]):
        work()
    seconds: list[float] = []
    wrong = ""
    for _ in range(request["iterations"]):
        prepare()
        seconds += repeat(work, device, warmup=0, iterations=1)
        wrong = wrong or fault()
    return {"seconds": seconds, "amount": amount, "wrong": wrong}


def _gemm(request: Mapping[str, Any], device: torch.device) -> Parts:
    """Factors whose product is exact, whatever the kernel rounds on its way, and is verified exactly.

    Freivalds' check (Probabilistic machines can use less running time, IFIP 1977): the product times a random vector
    has to be the factors times it, one after the other. All that is whole numbers below 2^53, so that fp64 is exact;
    an error of any size in a row goes unnoticed once in a million times.
    """
    size, dtype = request["gemm_size"], DTYPES[request["dtype"]]
    left, right = (_signs(size, dtype, device) for _ in range(2))
    product = torch.empty((size, size), device=device, dtype=dtype)

    def fault() -> str:
        vector = torch.randint(1, 1 << _VECTOR_BITS, (size, 1), device=device).double()
        expected = left.double() @ (right.double() @ vector)
        rows = int((product.double() @ vector != expected).sum())
        return f"{rows} of {size} rows of the product are wrong" if rows else ""

    def prepare() -> None:
        product.fill_(math.nan)

    return prepare, lambda: torch.matmul(left, right, out=product), fault, 2.0 * size**3


def _signs(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Random -1, 0 and 1, so few others than 0 that no sum of products of a row and a column comes near the numbers
    that a type does not count: those are `_DEVIATIONS` standard deviations away."""
    exact = 2 / torch.finfo(dtype).eps
    share = min(1.0, exact / (_DEVIATIONS * math.sqrt(size)))
    drawn = torch.rand((size, size), device=device)
    return ((drawn < share / 2).to(torch.int8) - (drawn > 1 - share / 2).to(torch.int8)).to(dtype)


def _hbm(request: Mapping[str, Any], device: torch.device) -> Parts:
    source = torch.arange(request["memory_bytes"] // 4, device=device, dtype=torch.int32)
    target = torch.empty_like(source)

    def fault() -> str:
        different = int((source != target).sum())
        return f"{different} of {len(source)} words of the copy are wrong" if different else ""

    return lambda: target.fill_(-1), lambda: target.copy_(source), fault, 2.0 * source.nbytes


def _train_step(request: Mapping[str, Any], device: torch.device) -> Parts:
    """A transformer block, a quarter of the matrices wide: forward, backward, optimizer. From the same weights each
    repetition has to give the same loss and the same gradient."""
    width, tokens = max(_HEADS, request["gemm_size"] // 4 // _HEADS * _HEADS), max(16, request["gemm_size"] // 4)
    dtype = DTYPES[request["dtype"]]
    block = _Block(width, device, dtype)
    optimizer = torch.optim.SGD(block.weights, lr=1e-3)
    batch = torch.randn(1, tokens, width, device=device).to(dtype)
    begin = [weight.detach().clone() for weight in block.weights]
    losses: list[torch.Tensor] = []

    def prepare() -> None:
        losses.clear()
        with torch.no_grad():
            for weight, first in zip(block.weights, begin, strict=True):
                weight.copy_(first)

    def step() -> None:
        optimizer.zero_grad()
        loss = functional.mse_loss(block(batch).float(), batch.float())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    def figures() -> dict[str, float]:
        gradients = torch.stack([weight.grad.float().norm() for weight in block.weights if weight.grad is not None])
        return {"loss": float(losses[-1]), "gradient": float(gradients.norm())}

    prepare()
    step()
    first = figures()
    parameters = sum(weight.numel() for weight in block.weights)
    return prepare, step, lambda: _differs(first, figures()), 6.0 * parameters * tokens + 6.0 * tokens * tokens * width


def _differs(first: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Between the figures of two steps; empty where they are the same."""
    for name, value in now.items():
        if not math.isfinite(value):
            return f"the {name} is not finite"
        if not math.isclose(first[name], value, rel_tol=_SAME):
            return f"the same step gave {name} {first[name]:g}, then {value:g}"
    return ""


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
