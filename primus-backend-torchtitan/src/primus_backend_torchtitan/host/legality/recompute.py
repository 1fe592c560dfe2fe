"""What is computed twice instead of kept."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import PIPELINE, Case
from primus_backend_torchtitan.host.schedules import schedule_of
from primus_core.outcome import Finding

_KIND, _COMPILE, _PARTS = "activation_checkpoint.kind", "compile.enable", "compile.components"
_SCHEDULE, _FILE = "parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule_csv"


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
