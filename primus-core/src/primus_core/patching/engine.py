"""Apply a plan's patches in this process, all or none, and take them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import cast

from attrs import field, frozen

from primus_core.contract import RankContext
from primus_core.errors import PrimusError, RunError, raise_all
from primus_core.outcome import PatchReport, PatchResult, PatchState
from primus_core.patching.checks import check_fingerprint, check_version
from primus_core.patching.replacements import load_factory, make_replacement
from primus_core.patching.targets import Location, locate
from primus_core.plan import PatchSpec, RunPlan
from primus_core.planning.patchorder import check_targets, not_needed, ordered, two_on_one_target


@frozen(kw_only=True)
class Change:
    """One attribute that was replaced."""

    id: str
    target: str
    location: Location
    stored: object
    """What was put there; `verify` expects to find this very object."""


@frozen(kw_only=True)
class Applied(PatchReport):
    """The ledger of the applied patches, with what is needed to verify and to undo them.

    As a context manager it undoes them at the end of the block.
    """

    changes: tuple[Change, ...] = field(default=(), repr=False)

    def undo(self) -> None:
        """Restore every target, last change first; a second call does nothing new."""
        _undo(self.changes)

    def __enter__(self) -> Applied:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def apply_patches(plan: RunPlan, rank: RankContext) -> Applied:
    """Apply the patches of the plan's translation that this accelerator needs.

    Every problem is collected before any is raised; then nothing stays applied. A patch whose ``after`` names a
    failed one is left out silently: its own failure would only be a consequence.

    Raises:
        RunError: a target differs from every known fingerprint and its id is not in `RunPlan.allowed_drift`, or a
            replacement fails.
        DependencyError: the plan's patches contradict one another, a library's version is outside ``requires``, or a
            module or factory is missing.
    """
    rank.phase("patch")  # a back end may have said that it imports its library before
    specs = ordered(plan.translation.patches if plan.translation else ())
    check_targets([spec for spec in specs if not not_needed(spec, plan.target.accelerator)])
    run = _Application(plan, rank)
    for spec in specs:
        run.apply(spec)
    run.raise_errors()
    return Applied(results=tuple(run.results), changes=tuple(run.changes))


class _Application:
    """The state of one `apply_patches`."""

    def __init__(self, plan: RunPlan, rank: RankContext) -> None:
        self._plan = plan
        self._rank = rank
        self._failed: set[str] = set()
        self._errors: list[PrimusError] = []
        self.results: list[PatchResult] = []
        self.changes: list[Change] = []

    def apply(self, spec: PatchSpec) -> None:
        why_not = not_needed(spec, self._plan.target.accelerator)
        if why_not:
            self._record(spec, "skipped", why_not)
        elif self._failed.intersection(spec.after):
            self._failed.add(spec.id)
        else:
            self._try(spec)

    def raise_errors(self) -> None:
        if self._errors:
            _undo(self.changes)
            raise_all(self._errors)

    def _try(self, spec: PatchSpec) -> None:
        self._rank.log("debug", "applying patch", id=spec.id, target=spec.target)
        try:
            self._replace(spec)
        except PrimusError as error:
            self._errors.append(_named(spec, error))
            self._failed.add(spec.id)

    def _replace(self, spec: PatchSpec) -> None:
        factory = load_factory(spec)
        location = locate(spec.target)
        self._check_alias(spec, location)
        drift = self._drift(spec, location)
        stored = location.wrap(make_replacement(spec, factory, location.original if location.exists else None))
        _put(spec, location, stored)
        self.changes.append(Change(id=spec.id, target=spec.target, location=location, stored=stored))
        self._record(spec, "drift-allowed" if drift else "applied", drift)

    def _drift(self, spec: PatchSpec, location: Location) -> str:
        """What differs from the patch's expectation; raises unless the user allowed it."""
        drifts = [error for check in (check_version, check_fingerprint) if (error := check(spec, location))]
        if drifts and spec.id not in self._plan.allowed_drift:
            raise drifts[0]
        return "; ".join(error.what for error in drifts)

    def _check_alias(self, spec: PatchSpec, location: Location) -> None:
        for change in self.changes:
            if change.location.owner is location.owner and change.location.name == location.name:
                raise two_on_one_target(spec.target, change.id, spec.id)

    def _record(self, spec: PatchSpec, state: PatchState, detail: str) -> None:
        self.results.append(PatchResult(id=spec.id, target=spec.target, reason=spec.reason, state=state, detail=detail))


def _put(spec: PatchSpec, location: Location, stored: object) -> None:
    try:
        location.put(stored)
    except (AttributeError, TypeError) as error:
        raise RunError("the target cannot be replaced", where=spec.target, why=str(error)) from error


def _undo(changes: Sequence[Change]) -> None:
    for change in reversed(changes):
        change.location.restore()


def _named(spec: PatchSpec, error: PrimusError) -> PrimusError:
    """The same error, saying which patch it is about."""
    make = cast("Callable[..., PrimusError]", type(error))
    named = make(
        f"patch {spec.id}: {error.what}",
        where=error.where or spec.target,
        why=error.why,
        remedy=error.remedy or "Update the back end: its patch no longer fits the installed library.",
    )
    named.__cause__ = error.__cause__
    return named
