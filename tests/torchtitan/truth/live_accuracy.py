"""The most that lives at once in TorchTitan's own training steps, against projection: chosen and drawn cases.

``python -m tests.torchtitan.truth.live_accuracy [NAME...]`` writes a JSON line for each case, in some minutes of one
core: ``{"model", "layout", "projected", "measured"}``. Bytes are those that a step needs beside what lives before it; a
second line has all that lives while the optimizer works. A case for which the step cannot be run here has a ``note``
instead. It fails where a case is beyond what `tests.truth.steps.problem` allows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.live_cases import CHOSEN, OPTIMIZERS, Case, drawn
from tests.torchtitan.truth.live_options import OPTIONS
from tests.truth.steps import OPTIMIZER, Row, compared, row_of, written

ENTRY = "tests.torchtitan.truth.entry:live"


def compare(ranks: Ranks, folder: Path, cases: Sequence[Case]) -> Iterator[Row]:
    """What TorchTitan did in each case, in a process for each: it compiles no kernel twice in one."""
    for number, case in enumerate(cases):
        prepared = {"live": {"cases": [case.asked()]}}
        outcome = ranks.run(folder / str(number), world=1, entry=ENTRY, prepared=prepared).check()
        (found,) = outcome.result()
        measured = None if "error" in found else found["peak"] - found["static"]
        yield row_of(case, case.projected().bytes, measured, note=found.get("error", ""))
        if "optimizer" in found:
            yield row_of(case, case.optimizing(), found["optimizer"], what=OPTIMIZER)


def main(names: Sequence[str]) -> int:
    """Write the rows of the cases of these names, or of all; the exit code."""
    cases = [case for case in (*CHOSEN, *OPTIONS, *OPTIMIZERS, *drawn()) if not names or case.name in names]
    return written(compared(cases, Ranks(), compare))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
