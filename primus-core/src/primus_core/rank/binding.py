"""What each rank says of its NUMA binding."""

from __future__ import annotations

from primus_core.contract import RankContext
from primus_core.rank.numa import WISH, outcome


def tell_binding(rank: RankContext) -> None:
    """One record of each rank that was to be bound; a warning where it was asked for and could not be done."""
    came = outcome(rank.env)
    if came is None:
        return
    if came.bound:
        rank.notice("numa", f"rank {rank.rank} is bound to {came.text}")
    elif rank.env.get(WISH, "").startswith("on"):
        rank.log("warning", f"not bound to a part of the host: {came.text}")
    else:
        rank.notice("numa", f"ranks are not bound: {came.text}")
