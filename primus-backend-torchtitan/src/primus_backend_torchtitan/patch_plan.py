"""The patches that a run needs, in order. No torch here: the plan is made where none is installed.

To add a patch: write its factory in ``rank/patches``, add a row to `patch_table` with one sentence that says what goes
wrong without it, and run ``tools/fingerprints.py torchtitan``, which records what the replaced code looks like now.
"""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from primus_backend_torchtitan.patch_table import CPU_EARLY, CPU_TITAN, EVERYWHERE, EVERYWHERE_LATE
from primus_core.plan import PatchSpec, Target
from primus_core.planning.patchrows import Table, Values


def plan_patches(target: Target, values: Values | None = None) -> tuple[PatchSpec, ...]:
    """The patches for a target, in the order of application.

    What TorchTitan copies from other modules while it is imported comes before its own patches: resolving those
    imports it.

    Args:
        values: TorchTitan's parameters, which decide what is needed; None: everything that any experiment may need.
    """
    cpu = target.accelerator == "cpu"
    table = Table.of(Path(__file__).parent, values)
    early = [evolve(spec, when=("cpu",)) for spec in table.specs(CPU_EARLY if cpu else ())]
    early += table.specs(EVERYWHERE)
    before = tuple(spec.id for spec in early)
    late = [evolve(spec, after=before, when=("cpu",)) for spec in table.specs(CPU_TITAN if cpu else ())]
    before = tuple(spec.id for spec in (*early, *late))
    last = [evolve(spec, after=before) for spec in table.specs(EVERYWHERE_LATE)]
    return (*early, *late, *last)
