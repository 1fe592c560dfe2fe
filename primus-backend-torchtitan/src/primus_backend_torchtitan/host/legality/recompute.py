"""What is computed twice instead of kept."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.architecture import layers_with_experts
from primus_backend_torchtitan.host.case import PIPELINE, Case
from primus_backend_torchtitan.host.schedules import schedule_of
from primus_backend_torchtitan.host.shape.blocks import weights_of_layer
from primus_backend_torchtitan.host.shape.recomputed import FORCED, forced_names
from primus_core.outcome import Finding

_KIND, _COMPILE, _PARTS = "activation_checkpoint.kind", "compile.enable", "compile.components"
_SCHEDULE, _FILE = "parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule_csv"
_KERNEL = "attention.inner_attention"
"""The module of a layer that has no weights."""
_ROUTER = "moe.router.gate"
"""What TorchTitan itself names, also for models without experts."""


def check_recompute(case: Case) -> Iterator[Finding]:
    """A budget of memory is the compiler's business; selective checkpointing works for one backward pass alone."""
    parts = case.values[_PARTS]
    compiled = case.values[_COMPILE] is True and isinstance(parts, list) and "model" in parts
    if case.values[_KIND] == "memory_budget" and not compiled:
        yield case.error(
            "recompute",
            "activations are kept by a budget of memory only where the model is compiled",
            (_KIND, _COMPILE, _PARTS),
            f"set {_COMPILE}: true, or {_KIND}: selective",
        )
    schedule = schedule_of(case.values[_SCHEDULE])
    piped = case.size(PIPELINE) > 1 and not case.values[_FILE]
    if case.values[_KIND] == "selective" and piped and schedule and schedule.splits:
        yield case.error(
            "recompute",
            f"{schedule.name} computes gradients of inputs and of weights apart, and what PyTorch recomputes "
            "selectively can run backward only once",
            (_KIND, _SCHEDULE),
            f"set {case.name(_KIND)}: none, or choose another schedule, such as Interleaved1F1B",
        )
    if case.values[_KIND] == "selective" and FORCED in case.paths:
        yield from _check_forced(case)


def _check_forced(case: Case) -> Iterator[Finding]:
    """Each name is looked for in those of all modules of a layer; TorchTitan raises at one that is no linear layer."""
    linear, others = _modules(case)
    for name in forced_names(case):
        if wrong := next((module for module in others if name in f"layers.{module}"), None):
            summary = f"{name} is in the name of {wrong}, which is no linear layer"
        elif name != _ROUTER and "layers." not in name and not any(name in module for module in linear):
            summary = f"no linear layer has {name} in its name"
        else:
            continue
        known = ", ".join(linear)
        yield case.error("recompute", summary, (FORCED,), f"name one of {known}")


def _modules(case: Case) -> tuple[list[str], list[str]]:
    """The linear layers of all kinds of layers, by name; and all other modules of them."""
    kinds = sorted(set(layers_with_experts(case.model)))
    weights = [weight for experts in kinds for weight in weights_of_layer(case, experts)]
    linear = dict.fromkeys(_owner(each.name) for each in weights if len(each.shape) == 2)
    parents = {name[:place] for name in map(_owner, (each.name for each in weights)) for place in _dots(name)}
    others = {_owner(each.name) for each in weights} | parents | {_KERNEL}
    return list(linear), sorted(others - linear.keys())


def _owner(weight: str) -> str:
    return weight.rpartition(".")[0]


def _dots(name: str) -> list[int]:
    return [place for place, letter in enumerate(name) if letter == "."]
