"""Which checkpoints are kept is said once: by core's parameters, or by the library's own."""

from __future__ import annotations

from collections.abc import Iterator

from primus_core.checkpoints.words import KEEP
from primus_core.outcome import Finding
from primus_core.plan import Adjusted, Mapped, RunPlan


def check_retention(plan: RunPlan, native: str) -> Iterator[Finding]:
    """An error where the experiment sets both.

    Args:
        native: the library's own parameter.
    """
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return
    module = plan.experiment.modules[plan.module]
    rows: tuple[Mapped | Adjusted, ...] = (*plan.translation.mapping, *plan.translation.adjusted)
    theirs = [row.path for row in rows if row.native == native and row.path in module.params]
    ours = [name for name in KEEP if name in module.params and plan.settings.values.get(name) is not None]
    if theirs and ours and plan.translation.native.get(native):
        both = (ours[0], theirs[0])
        yield Finding(
            check="retention",
            severity="error",
            summary=f"{both[0]} and {both[1]} both say which checkpoints are kept",
            evidence="\n".join(f"{name}: {module.params[name].value} ({module.origin(name)})" for name in both),
            remedy=f"remove {both[1]}",
            where=module.origin(both[0]),
        )
