"""The most that lives at once in TorchTitan's own training steps, against projection: chosen and drawn cases.

``python -m tests.torchtitan.truth.live_accuracy [NAME...]`` writes a JSON line for each case, in some minutes of one
core: ``{"model", "layout", "figures", "projected", "measured"}``. Bytes are those that a step needs beside what lives
before it. A case for which the step cannot be run here has a ``note`` instead. It fails where
a case is beyond what `tests.truth.steps.problem` allows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.live_cases import CHOSEN, Case, drawn
from tests.truth.steps import problem

ENTRY = "tests.torchtitan.truth.entry:live"


def measured(ranks: Ranks, folder: Path, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """What TorchTitan did in each case."""
    prepared = {"live": {"cases": [case.asked() for case in cases]}}
    found: list[dict[str, Any]] = ranks.run(folder, world=1, entry=ENTRY, prepared=prepared).check().result()
    return found


def row_of(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """One comparison."""
    row = {
        "model": case.name,
        "layout": f"rank {case.rank} of {case.ranks}, {'fused' if case.fused else 'local'} kernels",
        "figures": ["activations"],
        "projected": case.projected().bytes,
    }
    if "error" in found:
        return {**row, "measured": None, "note": found["error"]}
    return {**row, "measured": found["peak"] - found["static"]}


def rows(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Of the cases of these names, or of all."""
    with tempfile.TemporaryDirectory() as folder, Ranks() as ranks:
        for number, case in enumerate((*CHOSEN, *drawn())):
            if not names or case.name in names:
                (found,) = measured(ranks, Path(folder) / str(number), [case])
                yield row_of(case, found)


def main(names: Sequence[str]) -> int:
    """Write the rows; the exit code."""
    off = 0
    for row in rows(names):
        print(json.dumps(row), flush=True)
        off += bool(row["measured"] and problem(row["projected"], row["measured"]))
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
