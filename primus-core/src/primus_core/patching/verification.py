"""Prove that the planned patches are in force."""

from __future__ import annotations

from primus_core.errors import PrimusError, RunError, raise_all
from primus_core.outcome import PatchReport
from primus_core.patching.engine import Applied, Change
from primus_core.plan import RunPlan


def verify(plan: RunPlan, report: PatchReport) -> None:
    """Check that every planned patch is in the ledger, and that each target still is what the patch put there.

    The second check needs the `Applied` that `apply_patches` returned; of a plain report only the ids are checked.

    Raises:
        RunError: naming each patch that is missing or was overwritten.
    """
    changes = report.changes if isinstance(report, Applied) else ()
    raise_all([*_missing(plan, report), *filter(None, map(_overwritten, changes))])


def _missing(plan: RunPlan, report: PatchReport) -> list[PrimusError]:
    planned = [spec.id for spec in plan.translation.patches] if plan.translation else []
    present = {result.id for result in report.results}
    return [
        RunError(
            f"patch {name} was planned but not applied",
            remedy="This is a fault of the back end's rank code: update the back end.",
        )
        for name in planned
        if name not in present
    ]


def _overwritten(change: Change) -> PrimusError | None:
    found = change.location.current()
    if found is change.stored:
        return None
    return RunError(
        f"patch {change.id} was overwritten",
        where=change.target,
        why=f"it now is {found!r}",
        remedy="Find what replaces it: another library's import, a plugin or a patch script of the run.",
    )
