"""Real trainings on CPUs through Primus, with the allocator's events, against projection.

``python -m tests.truth.real_accuracy [NAME...]`` writes a JSON line for each rank of each case, in some minutes:
``{"model", "layout", "projected", "measured"}``, in bytes, all included. It fails where one is beyond what
`tests.truth.steps.problem` allows.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.forked.ranks import Ranks
from tests.megatron.ranks import Ranks as MegatronRanks
from tests.megatron.truth import live_cases as megatron
from tests.torchtitan.ranks import Ranks as TitanRanks
from tests.torchtitan.truth import live_cases as torchtitan
from tests.truth.allocator import compare
from tests.truth.steps import Row, Step, written

_GLOO = (
    "gloo allocates copies of what it gathers or scatters, as large as the whole: not counted; how many live at once "
    "differs from run to run"
)
_UNEVEN = "a real router gives some experts more tokens than others"
MEGATRON: Mapping[str, str] = {
    "dense": "",
    "fp32": "",
    "first of two stages": "",
    "feed-forward part recomputed": "",
    "latent attention with experts": "",
    "experts": _UNEVEN,
    "tensor and sequence parallel": _GLOO,
}
TORCHTITAN: Mapping[str, str] = {
    "dense": "",
    "loss at once": "",
    "never resharded": _GLOO,
    "recomputed in part": "",
    "experts": "",
    "latent attention with experts": "",
    "tensor and sequence parallel": _GLOO,
}
"""Names of chosen cases, and why one is listed alone."""


def rows(names: Sequence[str]) -> Iterator[Row]:
    """Of the cases of these names, or of all."""
    yield from _rows("Megatron", MegatronRanks(), megatron.CHOSEN, MEGATRON, names)
    yield from _rows("TorchTitan", TitanRanks(), torchtitan.CHOSEN, TORCHTITAN, names)


def _rows(
    library: str, ranks: Ranks, cases: Sequence[Step], wanted: Mapping[str, str], names: Sequence[str]
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, ranks:
        for number, case in enumerate(cases):
            if case.name in (names or wanted) and case.name in wanted:
                for row in compare(ranks, Path(folder) / str(number), case, wanted[case.name]):
                    yield {**row, "model": f"{library}: {case.name}"}


if __name__ == "__main__":
    sys.exit(written(rows(sys.argv[1:])))
