"""What TorchTitan must leave out on a CPU, with the same mathematics; and what Primus does in its place everywhere."""

from __future__ import annotations

from attrs import frozen

from primus_backend_torchtitan.host.converters import without_kernels
from primus_backend_torchtitan.host.draft import Draft
from primus_core.errors import ConfigError, PrimusError
from primus_core.experiment import Value


@frozen
class _Rule:
    native: str
    used: Value
    why: str
    instead_of: tuple[Value, ...] = ()
    """Only these values are replaced; empty: every other."""


CPU = (
    _Rule("parallelism.spmd_backend", "partial_dtensor", "the only way that is tried on a CPU; it computes the same"),
    _Rule("training.disable_cuda_graphs", True, "there are no CUDA graphs on a CPU; the operations are the same"),
    _Rule("optimizer.implementation", "foreach", "the fused kernels are for CUDA; AdamW is the same", ("fused",)),
    _Rule("model.attention", "flex", "this attention needs CUDA; flex computes the same", ("flex_flash", "varlen")),
    _Rule(
        "model.expert_dispatcher",
        "standard",
        "this dispatcher needs CUDA; the standard one computes the same",
        ("deepep", "hybridep", "minimal_async_ep"),
    ),
    _Rule("dataloader.pin_memory", False, "there is no device to copy to", (True,)),
)

EVERYWHERE = (
    _Rule("metrics.disable_color_printing", True, "its lines are records in a log file"),
    _Rule(
        "parallelism.spmd_backend",
        "partial_dtensor",
        "FSDP of torch 2.13 cannot shard what has the local SPMD types; DTensor computes the same",
        ("spmd_types",),
    ),
)

_IMPOSSIBLE: tuple[tuple[str, tuple[Value, ...], str], ...] = (
    ("optimizer.implementation", ("fused_opt_states_bf16",), "its kernel is for CUDA"),
    ("parallelism.enable_fsdp_symm_mem", (True,), "symmetric memory needs CUDA"),
    ("compile.enable_async_tensor_parallel", (True,), "it needs CUDA"),
)


def impossible(draft: Draft) -> list[PrimusError]:
    """Errors for what cannot be honoured on a CPU without changing the result."""
    if draft.target.accelerator != "cpu":
        return []
    return [*without_kernels(draft)] + [
        ConfigError(
            f"`{draft.asked.wishes[native].path}` cannot be {draft[native]} on a CPU",
            where=str(draft.asked.wishes[native].leaf.origin),
            why=why,
            remedy="remove it, or train on a GPU",
        )
        for native, values, why in _IMPOSSIBLE
        if draft.is_set(native) and draft[native] in values
    ]


def adjust_platform(draft: Draft) -> None:
    """The rules of the accelerator."""
    for rule in (*EVERYWHERE, *(CPU if draft.target.accelerator == "cpu" else ())):
        if rule.native in draft.schema.parameters and (not rule.instead_of or draft[rule.native] in rule.instead_of):
            draft.adjust(rule.native, rule.used, rule.why)
