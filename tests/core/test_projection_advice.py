"""What is advised where a run does not fit, against a toy whose memory is known."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.projection.advice import Effect, Now, advise, changes
from primus_core.shape import Saving

SAVINGS = (
    Saving(settings={"without_effect": "true"}, cost="nothing"),
    Saving(settings={"repeat": "refused"}, cost="a part runs twice", repeats="part"),
    Saving(settings={"repeat": "all"}, cost="all runs twice", repeats="all"),
)
NOW = Now(ranks=8, micro_batch_size=4, experts=8, savings=SAVINGS)


def toy(settings: Mapping[str, str], ranks: int) -> int | None:
    """Weights of 64 divided by tensors and stages, 10 a sequence, which recomputing halves; context is refused."""
    if "context_parallel_size" in settings or settings.get("repeat") == "refused":
        return None
    divided = int(settings.get("tensor_model_parallel_size", 1)) * int(settings.get("pipeline_model_parallel_size", 1))
    if divided > ranks:
        return None
    batch = 10 * int(settings.get("micro_batch_size", 4))
    return 64 // divided + (batch // 2 if settings.get("repeat") == "all" else batch)


def advised(capacity: int) -> tuple[Effect, ...]:
    return advise(NOW, 104, capacity, toy)


def test_the_mildest_degree_that_is_enough_is_advised() -> None:
    """Where half the micro batch or two tensor ranks are enough, nothing more is advised."""
    fits = {tuple(one.settings.items()) for one in advised(90) if one.fits}
    assert (("micro_batch_size", "2"),) in fits
    assert (("tensor_model_parallel_size", "2"),) in fits


def test_an_effect_is_what_the_run_would_need() -> None:
    """Each change tells the memory after it, and what it saves, as planning anew gives it."""
    for one in advised(50):
        assert one.needed == toy(one.settings, one.ranks)
        assert one.saved == 104 - one.needed > 0
        assert one.fits == (one.needed <= 50)


def test_changes_that_are_refused_or_save_nothing_are_left_out() -> None:
    """Neither a parallelism that the back end refuses nor a switch without effect is advised."""
    names = {name for one in advised(20) for name in one.settings}
    assert not names & {"context_parallel_size", "without_effect", "expert_model_parallel_size"}


def test_what_no_change_reaches_alone_several_reach_together() -> None:
    """Changes are put together, the cheapest first, until they are enough."""
    *_, last = advised(20)
    assert last.fits
    assert len(last.settings) > 1
    assert last.settings["micro_batch_size"] == "1"


def test_more_ranks_are_advised_where_the_same_number_never_fits() -> None:
    """A model that no layout of its ranks holds is given four or sixteen times as many."""
    *_, last = advised(6)
    assert last.fits
    assert last.ranks > NOW.ranks


def test_the_cheapest_is_tried_first() -> None:
    """What costs no arithmetic comes before what repeats a part, and before what divides the model."""
    names = [next(iter(change.degrees[0].items())) for change in changes(NOW)]
    order = [("without_effect", "true"), ("repeat", "refused"), ("tensor_model_parallel_size", "2"), ("repeat", "all")]
    assert [name for name in names if name in order] == order
    assert names[-1] == order[-1]
