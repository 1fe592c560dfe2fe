"""The most that lives at once in Megatron's own training steps, against projection: chosen and drawn cases.

``python -m tests.megatron.truth.live_accuracy [NAME...]`` writes a JSON line for each case, in some minutes of one
core: ``{"model", "layout", "projected", "measured"}``. Bytes are those that a step needs beside what lives before it; a
second line has all that lives while the optimizer works. It fails where a case is beyond what
`tests.truth.steps.problem` allows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.megatron.ranks import Ranks, all_patches, make_plan
from tests.megatron.truth.live_cases import CHOSEN, OPTIMIZERS, Case, activations
from tests.megatron.truth.live_drawn import drawn
from tests.truth.steps import OPTIMIZER, Row, compared, row_of, written

ENTRY = "tests.megatron.truth.live_entry:measure"


def compare(ranks: Ranks, folder: Path, cases: Sequence[Case], *, once: bool = False) -> Iterator[Row]:
    """What Megatron did in each case.

    Args:
        once: up to the optimizer of the first step alone.

    Raises:
        RuntimeError: Megatron could not run a case.
    """
    prepared = {"live": {"cases": [case.asked(once=once) for case in cases]}}
    plan = make_plan(folder=folder, world=1, patches=all_patches())
    (line,) = ranks.start(plan, folder, entry=ENTRY, prepared=prepared).check().of("result")
    for case, found in zip(cases, line["value"], strict=True):
        if "error" in found:
            raise RuntimeError(f"{case.name}: {found['error']}")
        yield row_of(case, activations(case.projected(), once=once), found["peak"] - found["static"])
        if not once:
            yield row_of(case, case.optimizing(), found["optimizer"], what=OPTIMIZER)


def main(names: Sequence[str]) -> int:
    """Write the rows of the cases of these names, or of all; the exit code."""
    cases = [case for case in (*CHOSEN, *OPTIMIZERS, *drawn()) if not names or case.name in names]
    return written(compared(cases, Ranks(), compare))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
