"""What activation checkpointing keeps of a layer, and what runs again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.shape.operators_experts import CHOICES
from primus_backend_torchtitan.host.shape.operators_latent import PRODUCTS
from primus_core.shape import Operator, Parameter, Recomputed

_KIND = "activation_checkpoint.kind"
FORCED = "activation_checkpoint.force_recompute_mm_shapes_by_fqns"
_SAVED = ("attention.inner_attention",)
_SUMS = ("attended.sum", "down.sum", "moe.sum", "moe.routed.sum", "moe.shared.sum")
_SENT = ("moe.send", "moe.return")
"""Operators other than products whose results are kept: attention, where it is one kernel that torch knows by name,
sums over ranks that each get a part of, and tokens that were sent to experts and back; choices of experts are, too."""

_Shape = tuple[int, ...]


def recomputed_of(case: Case, parameters: Sequence[Parameter], operators: Sequence[Operator]) -> tuple[Recomputed, ...]:
    """The whole layer, but for the results that TorchTitan's selective checkpointing keeps.

    PyTorch runs it again no sooner than an operator's backward asks for what was kept.
    """
    kind = case.values[_KIND]
    if kind not in ("full", "selective"):
        return ()
    saves = tuple(_saved(case, _matrices(parameters), operators)) if kind == "selective" else ()
    asks = [op.name for op in operators if op.keeps][-1]
    return (Recomputed(first=operators[0].name, last=operators[-1].name, before=asks, saves=saves),)


def _saved(case: Case, matrices: Mapping[str, _Shape], operators: Sequence[Operator]) -> Iterator[str]:
    """Every second product from the first on, not counting those that are forced to run again; all with a bias, which
    are one operation with their sum; what other ranks sent; attention; and on a CPU the products that it may be."""
    kept = (*_SENT, *(_SAVED if case.accelerator != "cpu" else ()), *(_SUMS if _divides_tokens(case) else ()))
    forced = {shape for name, shape in matrices.items() if any(part in name for part in forced_names(case))}
    products = [op for op in operators if op.flops and op.weights and op.weights[0] in matrices]
    counted = [op.name for op in products if len(op.weights) == 1 and matrices[op.weights[0]] not in forced]
    biased = [op.name for op in products if len(op.weights) == 2]
    for op in operators:
        if op.name in (*kept, *biased, *counted[::2]):
            yield from (made.name for made in op.makes)
        yield from (made.name for made in op.makes if made.name in (*PRODUCTS, *CHOICES))


def _divides_tokens(case: Case) -> bool:
    return case.values["parallelism.enable_sequence_parallel"] is True


def _matrices(parameters: Sequence[Parameter]) -> dict[str, _Shape]:
    """Those that torch multiplies by its usual product; grouped ones are another operation."""
    return {each.name: each.shape for each in parameters if len(each.shape) == 2}


def forced_names(case: Case) -> tuple[str, ...]:
    """Parts of names of linear layers: every product with a matrix of the shape of one of these runs again."""
    names = case.values[FORCED]
    return tuple(map(str, names)) if isinstance(names, list) else ()
