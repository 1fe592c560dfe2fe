"""Operations of Megatron's own training steps, against projection.

``python -m tests.megatron.truth.flops_accuracy [NAME...]`` writes a JSON line for each case, in some minutes of one
core: ``{"model", "layout", "projected", "measured"}``, of one step of one rank. It fails where a case is beyond what
`tests.truth.flops.problem` allows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.megatron.ranks import Ranks, all_patches, make_plan
from tests.megatron.truth.live_cases import CHOSEN, LATENT, MIXTURE, NEXT, SHARED, TENSOR, Case, piped, selected
from tests.megatron.truth.live_drawn import drawn
from tests.megatron.truth.places import stage_of
from tests.truth.flops import per_rank, row_of, written
from tests.truth.steps import Row, compared

ENTRY = "tests.megatron.truth.products:count"
_DIVIDED = {**TENSOR, "sequence_parallel": True, "expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1}
MORE = (
    Case(name="fewer groups of queries than ranks", params={**TENSOR, "num_query_groups": 1}, ranks=2),
    Case(
        name="a padded vocabulary", params={**TENSOR, "vocab_size": 1000, "make_vocab_size_divisible_by": 64}, ranks=2
    ),
    Case(
        name="latent attention, narrow products on each rank, fused", params={**LATENT, **TENSOR}, ranks=2, fused=True
    ),
    Case(name="latent attention, tensor parallel", params={**LATENT, **TENSOR}, ranks=2),
    Case(
        name="experts of four ranks",
        params={**MIXTURE, "expert_model_parallel_size": 4, "global_batch_size": 16},
        ranks=4,
        rank=2,
    ),
    Case(name="experts of two ranks that divide the tokens", params={**MIXTURE, **_DIVIDED}, ranks=2),
    Case(name="experts of two ranks, a shared one divided", params={**SHARED, **_DIVIDED}, ranks=4),
    Case(name="experts recomputed", params={**MIXTURE, **selected("moe"), "num_layers": 3}),
    Case(name="attention recomputed", params={**selected("core_attn"), "num_layers": 3}),
    Case(name="first of two stages with experts", params={**MIXTURE, **piped(2, 4)}, ranks=2),
    Case(name="one more token predicted with experts", params={**NEXT, **SHARED}),
    Case(name="one more token predicted, tensor parallel", params={**NEXT, **TENSOR}, ranks=2, rank=1),
    Case(name="first stage, one more token predicted on the last", params={**NEXT, **piped(2, 4)}, ranks=2),
)
"""Of which some need other operations than those whose memory is compared."""


def cases() -> Iterator[Case]:
    """All but experts that get more than their share, which compute more, and grouped ones, whose stand-in does not.

    Grouped experts multiply what experts one by one do.
    """
    yield from (case for case in (*CHOSEN, *MORE, *drawn()) if case.load == 1 and not _grouped(case))


def _grouped(case: Case) -> bool:
    return case.params.get("moe_grouped_gemm") is True


def compare(ranks: Ranks, folder: Path, chosen: Sequence[Case]) -> Iterator[Row]:
    """What Megatron did in each case, in a process for each, for it has global state."""
    plan = make_plan(folder=folder, world=1, patches=all_patches())
    for case in chosen:
        started = ranks.start(plan, folder, entry=ENTRY, prepared={"live": case.asked()})
        (line,) = started.check().of("result")
        shape = case.shape()
        yield row_of(case, per_rank(shape, stage_of(shape, case.rank)), line["value"])


def main(names: Sequence[str]) -> int:
    """Write the rows of the cases of these names, or of all; the exit code."""
    return written(compared([case for case in cases() if not names or case.name in names], Ranks(), compare))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
