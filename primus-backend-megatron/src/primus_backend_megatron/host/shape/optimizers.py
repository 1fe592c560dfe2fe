"""What Megatron's optimizers other than Adam and SGD keep of each tensor.

Sources: `_EMERGING_OPTIMIZERS` of megatron-core 0.19, and `_init_group` of emerging-optimizers 0.3. Matrices that are
neither an embedding of words nor the output layer are theirs; all other tensors are Adam's, or Lion's with
``muon_scalar_optimizer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve

from primus_backend_megatron.host.legality.case import Case
from primus_core.shape import DTYPE_BYTES, Group, Parameter

_TABLES = ("embedding.word_embeddings.weight", "output_layer.weight")
_FP32 = DTYPE_BYTES["fp32"]
_MUON = ("muon", "dist_muon", "adaptive_muon")


def is_plain(case: Case) -> bool:
    """The optimizer treats all tensors alike: Adam or SGD."""
    return case.values["optimizer"] in ("adam", "sgd")


def deals_matrices(case: Case) -> bool:
    """Whole matrices are dealt out to ranks that hold the same weights."""
    return not is_plain(case) and (case.on("use_distributed_optimizer") or case.values["optimizer"] == "dist_muon")


def moments_of_rest(case: Case) -> int:
    """Moments of tensors that are not told by themselves."""
    optimizer = case.values["optimizer"]
    lion = optimizer in _MUON and case.values.get("muon_scalar_optimizer") == "lion"
    return 1 if lion or optimizer == "sgd" else 2


def with_states(case: Case, parameters: tuple[Parameter, ...], groups: Mapping[Group, int]) -> tuple[Parameter, ...]:
    """The parameters, with the state of those that Adam or SGD does not work on."""
    kept = _KEPT.get(str(case.values["optimizer"]))
    if kept is None:
        return parameters
    return tuple(
        evolve(one, state=kept(*_local(one, groups)) * _FP32) if _is_theirs(one) else one for one in parameters
    )


def _is_theirs(parameter: Parameter) -> bool:
    return len(parameter.shape) == 2 and not parameter.name.endswith(_TABLES)


def _local(parameter: Parameter, groups: Mapping[Group, int]) -> tuple[int, ...]:
    axes = (*parameter.axes, None, None)
    return tuple(size // (groups[axis] if axis else 1) for size, axis in zip(parameter.shape, axes, strict=False))


def _one(rows: int, columns: int) -> int:
    return rows * columns


def _two(rows: int, columns: int) -> int:
    return 2 * rows * columns


def _soap(rows: int, columns: int) -> int:
    """Two moments; of rows and of columns the sum of products of gradients, and its eigenvectors."""
    return 2 * (rows * columns + rows**2 + columns**2)


_KEPT: Mapping[str, Callable[[int, int], int]] = {
    "muon": _one,
    "dist_muon": _one,
    "lion": _one,
    "adaptive_muon": _two,
    "soap": _soap,
}
"""Elements of a matrix's state. Adaptive Muon's second moment is as large as the first: Megatron has no option for the
smaller ones."""
