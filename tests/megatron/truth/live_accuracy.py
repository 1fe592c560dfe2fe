"""The most that lives at once in Megatron's own training steps, against projection: chosen and drawn cases.

``python -m tests.megatron.truth.live_accuracy [NAME...]`` writes a JSON line for each of 32 cases, in some minutes of
one core: ``{"model", "layout", "figures", "projected", "measured"}``. Bytes are those that a step needs
beside what lives before it. It fails where a case is beyond what `tests.megatron.truth.live_cases.problem` allows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.megatron.ranks import Ranks, all_patches, make_plan
from tests.megatron.truth.live_cases import CHOSEN, Case, activations, drawn, problem

ENTRY = "tests.megatron.truth.live_entry:measure"


def measured(ranks: Ranks, folder: Path, cases: Sequence[Case], *, once: bool = False) -> list[dict[str, Any]]:
    """What Megatron did in each case."""
    prepared = {"live": {"cases": [case.asked(once=once) for case in cases]}}
    plan = make_plan(folder=folder, world=1, patches=all_patches())
    outcome = ranks.start(plan, folder, entry=ENTRY, prepared=prepared).check()
    (line,) = outcome.of("result")
    found: list[dict[str, Any]] = line["value"]
    return found


def row_of(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """One comparison.

    Raises:
        RuntimeError: Megatron could not run the case.
    """
    if "error" in found:
        raise RuntimeError(f"{case.name}: {found['error']}")
    return {
        "model": case.name,
        "layout": f"rank {case.rank} of {case.ranks}, {'fused' if case.fused else 'local'} kernels",
        "figures": ["activations"],
        "projected": activations(case.projected()),
        "measured": found["peak"] - found["static"],
    }


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
        off += bool(problem(row["projected"], row["measured"]))
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
