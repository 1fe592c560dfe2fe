"""The patches that a run needs, in order. No torch here: the plan is made where none is installed.

To add a patch: write its factory in ``rank/``, add a row to `patch_table` with one sentence that says what goes wrong
without it, and run ``tools/fingerprints.py megatron``, which records what the replaced code looks like now.
"""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from primus_backend_megatron.patch_table import CPU_MEGATRON, CPU_TORCH, EVERYWHERE, PYTHON
from primus_core.plan import PatchSpec, Target
from primus_core.planning.patchrows import Table, Values


def plan_patches(target: Target, values: Values | None = None) -> tuple[PatchSpec, ...]:
    """The patches for a target, in the order of application.

    Everything that Megatron copies from other modules while it is imported comes before its own patches: resolving
    those imports it.

    Args:
        values: Megatron's parameters, which decide what is needed; None: everything that any experiment may need.
    """
    cpu = target.accelerator == "cpu"
    table = Table.of(Path(__file__).parent, values)
    early = [evolve(spec, python="<3.12") for spec in table.specs(PYTHON)]
    early += [evolve(spec, when=("cpu",)) for spec in table.specs(CPU_TORCH if cpu else ())]
    before = tuple(spec.id for spec in early)
    late = [evolve(spec, after=before) for spec in table.specs(EVERYWHERE)]
    late += [evolve(spec, after=before, when=("cpu",)) for spec in table.specs(CPU_MEGATRON if cpu else ())]
    return (*early, *late)
