"""What is computed twice instead of kept."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import Case
from primus_core.outcome import Finding

_KIND, _COMPILE, _PARTS = "activation_checkpoint.kind", "compile.enable", "compile.components"


def check_recompute(case: Case) -> Iterator[Finding]:
    """A budget of memory is the compiler's business."""
    parts = case.values[_PARTS]
    compiled = case.values[_COMPILE] is True and isinstance(parts, list) and "model" in parts
    if case.values[_KIND] == "memory_budget" and not compiled:
        yield case.error(
            "recompute",
            "activations are kept by a budget of memory only where the model is compiled",
            (_KIND, _COMPILE, _PARTS),
            f"set {_COMPILE}: true, or {_KIND}: selective",
        )
