"""The patches that a run needs, in order. No torch here: the plan is made where none is installed.

To add a patch: write its factory in ``rank/``, add a row to `patch_table` with one sentence that says what goes wrong
without it, and run ``tools/fingerprints.py``, which records what the replaced code looks like now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

from attrs import evolve

from primus_backend_megatron.patch_table import CPU_MEGATRON, CPU_TORCH, EVERYWHERE, PYTHON, Row
from primus_core.plan import PatchSpec, Target


def plan_patches(target: Target) -> tuple[PatchSpec, ...]:
    """The patches for a target, in the order of application.

    Everything that Megatron copies from other modules while it is imported comes before its own patches: resolving
    those imports it.
    """
    cpu = target.accelerator == "cpu"
    known = _fingerprints()
    early = [evolve(_spec(row, known), python="<3.12") for row in PYTHON]
    early += [evolve(_spec(row, known), when=("cpu",)) for row in (CPU_TORCH if cpu else ())]
    before = tuple(spec.id for spec in early)
    late = [evolve(_spec(row, known), after=before) for row in EVERYWHERE]
    late += [evolve(_spec(row, known), after=before, when=("cpu",)) for row in (CPU_MEGATRON if cpu else ())]
    return (*early, *late)


def _spec(row: Row, known: Mapping[str, Sequence[str]]) -> PatchSpec:
    return PatchSpec(
        id=row.id,
        target=row.target,
        replacement=row.replacement,
        reason=row.reason,
        requires=row.requires,
        fingerprint=tuple(known.get(row.target, ())),
    )


def _fingerprints() -> Mapping[str, Sequence[str]]:
    text = files(__package__).joinpath("patch_fingerprints.json").read_text(encoding="utf-8")
    known: Mapping[str, Sequence[str]] = json.loads(text)
    return known
