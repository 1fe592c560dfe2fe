"""What activation checkpointing keeps of a layer, and what runs again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.shape.operators_experts import CHOICES
from primus_backend_torchtitan.host.shape.operators_latent import PRODUCTS
from primus_core.shape import Operator, Recomputed

_KIND = "activation_checkpoint.kind"
_GATE = "moe.router.gate"
_SAVED = ("attention.inner_attention",)
_SUMS = ("attended.sum", "down.sum", "moe.sum", "moe.routed.sum", "moe.shared.sum")
_SENT = ("moe.send", "moe.return")
"""Operators other than products whose results are kept: attention, where it is one kernel that torch knows by name,
sums over ranks that each get a part of, and tokens that were sent to experts and back; choices of experts are, too."""


def recomputed_of(case: Case, operators: Sequence[Operator]) -> tuple[Recomputed, ...]:
    """The whole layer, but for the results that TorchTitan's selective checkpointing keeps.

    PyTorch runs it again no sooner than an operator's backward asks for what was kept.
    """
    kind = case.values[_KIND]
    if kind not in ("full", "selective"):
        return ()
    saves = tuple(_saved(case, operators)) if kind == "selective" else ()
    asks = [op.name for op in operators if op.keeps][-1]
    return (Recomputed(first=operators[0].name, last=operators[-1].name, before=asks, saves=saves),)


def _saved(case: Case, operators: Sequence[Operator]) -> Iterator[str]:
    """Every second product from the first on, not counting those as wide as a router; what other ranks sent; attention;
    and on a CPU the products that it may consist of."""
    kept = (*_SENT, *(_SAVED if case.accelerator != "cpu" else ()), *(_SUMS if _divides_tokens(case) else ()))
    products = [op.name for op in operators if _is_product(op)]
    for op in operators:
        if op.name in (*kept, *products[::2]):
            yield from (made.name for made in op.makes)
        yield from (made.name for made in op.makes if made.name in (*PRODUCTS, *CHOICES))


def _divides_tokens(case: Case) -> bool:
    return case.values["parallelism.enable_sequence_parallel"] is True


def _is_product(op: Operator) -> bool:
    """A product of two matrices as torch computes it; grouped ones and those with a bias are other operations."""
    return op.flops > 0 and len(op.weights) == 1 and op.weights[0].endswith(".weight") and op.name != _GATE
