"""The patches that a run needs, in order. No torch here: the plan is made where none is installed.

To add a patch: write its factory in ``rank/patches``, add a row to `patch_table` with one sentence that says what goes
wrong without it, and run ``tools/fingerprints.py``, which records what the replaced code looks like now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from attrs import evolve

from primus_backend_torchtitan.patch_table import CPU_EARLY, CPU_TITAN, EVERYWHERE, EVERYWHERE_LATE, Row, Values
from primus_core.plan import PatchSpec, Target


def plan_patches(target: Target, values: Values | None = None) -> tuple[PatchSpec, ...]:
    """The patches for a target, in the order of application.

    What TorchTitan copies from other modules while it is imported comes before its own patches: resolving those
    imports it.

    Args:
        values: TorchTitan's parameters, which decide what is needed; None: everything that any experiment may need.
    """
    cpu = target.accelerator == "cpu"
    known = _fingerprints()
    early = [evolve(_spec(row, known), when=("cpu",)) for row in _needed(CPU_EARLY if cpu else (), values)]
    early += [_spec(row, known) for row in _needed(EVERYWHERE, values)]
    before = tuple(spec.id for spec in early)
    late = [evolve(_spec(row, known), after=before, when=("cpu",)) for row in _needed(CPU_TITAN if cpu else (), values)]
    before = tuple(spec.id for spec in (*early, *late))
    last = [evolve(_spec(row, known), after=before) for row in _needed(EVERYWHERE_LATE, values)]
    return (*early, *late, *last)


def _needed(rows: Iterable[Row], values: Values | None) -> list[Row]:
    return [row for row in rows if values is None or row.need is None or row.need.met(values)]


def _spec(row: Row, known: Mapping[str, Sequence[str]]) -> PatchSpec:
    return PatchSpec(
        id=row.id,
        target=row.target,
        replacement=row.replacement,
        reason=row.reason,
        requires=row.requires,
        fingerprint=tuple(known.get(row.target, ())),
        condition=row.need.words if row.need else "",
    )


def _fingerprints() -> Mapping[str, Sequence[str]]:
    text = files(__package__).joinpath("patch_fingerprints.json").read_text(encoding="utf-8")
    known: Mapping[str, Sequence[str]] = json.loads(text)
    return known
