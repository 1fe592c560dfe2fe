"""Operations of TorchTitan's own training steps, against projection.

``python -m tests.torchtitan.truth.flops_accuracy [NAME...]`` writes a JSON line for each case, in some minutes of one
core: ``{"model", "layout", "projected", "measured"}``, of one step of one rank. It fails where a case is beyond what
`tests.truth.flops.problem` allows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.torchtitan.families import DEEPSEEK
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.layouts import EP, PP, SCHEDULE, TP
from tests.torchtitan.truth.live_cases import CHOSEN, RECOMPUTE, SEQUENCE_PARALLEL, Case, Params, drawn
from tests.torchtitan.truth.places import stage_of
from tests.truth.flops import per_rank, row_of, written
from tests.truth.steps import Row, compared

ENTRY = "tests.torchtitan.truth.entry:count"


_DEEPSEEK: Params = {
    **DEEPSEEK,
    "moe_aux_loss_coeff": 0.0,
    "num_layers": 4,
    "moe_layer_freq": "([0]*1+[1]*3)",
    "yarn_original_max_position_embeddings": 128,
    "global_batch_size": 2,
}
_DENSE: Params = {**_DEEPSEEK, "moe_layer_freq": "([0]*4)", TP: 2}
MORE = (
    Case(name="latent attention, sequence parallel", params=_DENSE, ranks=2),
    Case(name="latent attention, tensor parallel", params={**_DENSE, SEQUENCE_PARALLEL: False}, ranks=2),
    Case(
        name="latent attention, sequence parallel, recomputed in part",
        params={**_DENSE, RECOMPUTE: "selective"},
        ranks=2,
    ),
    Case(name="latent attention, sequence parallel, fused", params=_DENSE, ranks=2, rank=1, fused=True),
    Case(name="latent attention with experts, sequence parallel", params={**_DEEPSEEK, TP: 2}, ranks=2),
    Case(name="latent attention with experts of two ranks", params={**_DEEPSEEK, TP: 2, EP: 2}, ranks=2),
    Case(
        name="latent attention with experts, last of two stages",
        params={**_DEEPSEEK, PP: 2, SCHEDULE: "1F1B", "global_batch_size": 16},
        ranks=2,
        rank=1,
    ),
    Case(name="latent attention with experts, recomputed", params={**_DEEPSEEK, RECOMPUTE: "full"}),
    Case(
        name="a feed-forward part of uneven shares",
        params={"ffn_hidden_size": 769, TP: 2, "global_batch_size": 2},
        ranks=2,
    ),
    Case(name="a padded vocabulary", params={"vocab_size": 1000, TP: 2, "global_batch_size": 2}, ranks=2),
)
"""Of which some need other operations than those whose memory is compared."""


def cases() -> Iterator[Case]:
    """All but for experts that get more than their share, which compute more."""
    yield from (case for case in (*CHOSEN, *MORE, *drawn()) if case.load == 1)


def compare(ranks: Ranks, folder: Path, chosen: Sequence[Case]) -> Iterator[Row]:
    """What TorchTitan did in each case, in a process for each: it compiles no kernel twice in one."""
    for number, case in enumerate(chosen):
        outcome = ranks.run(folder / str(number), world=1, entry=ENTRY, prepared={"live": case.asked()}).check()
        shape = case.shape()
        yield row_of(case, per_rank(shape, stage_of(shape, case.rank)), outcome.result())


def main(names: Sequence[str]) -> int:
    """Write the rows of the cases of these names, or of all; the exit code."""
    return written(compared([case for case in cases() if not names or case.name in names], Ranks(), compare))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
