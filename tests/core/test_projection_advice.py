"""What is advised where a run does not fit, against a toy whose memory is known."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from primus_core.projection.advice import Advice, Effect, Need, advise
from primus_core.projection.bounds import Least, Sizes
from primus_core.projection.changing import Now, changes
from primus_core.shape import Saving

SAVINGS = (
    Saving(settings={"without_effect": "true"}, cost="nothing"),
    Saving(settings={"repeat": "refused"}, cost="a part runs twice", repeats="part"),
    Saving(settings={"repeat": "all"}, cost="all runs twice", repeats="all"),
    Saving(settings={}, cost="stages wait", stages=2),
    Saving(settings={"uneven": "1"}, cost="stages wait", stages=4),
)
SIZES = Sizes(micro_batch_size=4, global_batch_size=32)
NOW = Now(ranks=8, sizes=SIZES, experts=8, savings=SAVINGS, least=Least(dense=64))


class Toy:
    """Weights of 64 divided by tensors and stages, 10 a sequence, which recomputing halves; context is refused."""

    def __init__(self) -> None:
        self.planned: list[tuple[dict[str, str], int]] = []

    def needs(self, settings: Mapping[str, str], ranks: int) -> Need | None:
        self.planned.append((dict(settings), ranks))
        if "context_parallel_size" in settings or settings.get("repeat") == "refused":
            return None
        stages = int(settings.get("pipeline_model_parallel_size", 1))
        if stages == 4 and "uneven" not in settings:
            return None
        divided = int(settings.get("tensor_model_parallel_size", 1)) * stages
        batch, micro = int(settings.get("global_batch_size", 32)), int(settings.get("micro_batch_size", 4))
        if batch % (micro * (ranks // divided)):
            return None
        activations = 10 * micro // (2 if settings.get("repeat") == "all" else 1)
        weights = 64 // divided
        return Need(bytes=weights + activations, activations=activations, largest="weights", largest_bytes=weights)


def advised(capacity: int, toy: Toy | None = None, now: Now = NOW) -> Advice:
    return advise(now, Need(bytes=104, activations=40), capacity, (toy or Toy()).needs)


def fitting(capacity: int) -> list[Effect]:
    return [one for one in advised(capacity).effects if one.fits]


def test_the_mildest_degree_that_is_enough_is_advised() -> None:
    """Where half the micro batch or two tensor ranks are enough, nothing more is advised."""
    fits = {tuple(one.settings.items()) for one in fitting(90)}
    assert (("micro_batch_size", "2"),) in fits
    assert (("tensor_model_parallel_size", "2"),) in fits


def test_an_effect_is_what_the_run_would_need() -> None:
    """Each change tells the memory after it, and what it saves, as planning anew gives it."""
    for capacity in (90, 50, 30, 12, 6):
        for one in advised(capacity).effects:
            need = Toy().needs(one.settings, one.ranks)
            assert need is not None
            assert one.needed == need.bytes
            assert one.saved == 104 - one.needed > 0
            assert one.fits == (one.needed <= capacity)


def test_changes_that_are_refused_or_save_nothing_are_left_out() -> None:
    """Neither a parallelism that the back end refuses nor a switch without effect is advised alone."""
    names = {name for one in advised(70).effects if len(one.settings) == 1 for name in one.settings}
    assert names
    assert not names & {"context_parallel_size", "without_effect", "expert_model_parallel_size"}


def test_a_change_that_is_not_felt_is_told_only_where_it_is_enough() -> None:
    """One that saves less than a hundredth of what is needed is less than a projection may be off by."""
    saving = Saving(settings={"little": "true"}, cost="a little")
    now = Now(ranks=1, savings=(saving,), least=Least(dense=64))

    def told(needed: int, capacity: int) -> list[int]:
        advice = advise(now, Need(bytes=1000), capacity, lambda settings, _: Need(bytes=needed) if settings else None)
        return [effect.saved for effect in advice.effects if effect.settings == saving.settings]

    assert told(995, 995) == [5]
    assert told(980, 900) == [20]
    assert told(995, 990) == []


def test_what_no_change_reaches_alone_several_reach_together() -> None:
    """Changes are put together until they are enough, on the same ranks where these can."""
    last = fitting(25)[-1]
    assert len(last.settings) > 1
    assert last.ranks == NOW.ranks


def test_stages_are_cut_in_the_words_of_the_back_end() -> None:
    """More stages come with what the back end needs beside their number."""
    degrees = next(one.degrees for one in changes(NOW) if "pipeline_model_parallel_size" in one.degrees[0].settings)
    sizes = [{"pipeline_model_parallel_size": "2"}, {"pipeline_model_parallel_size": "4", "uneven": "1"}]
    assert [one.settings for one in degrees] == sizes


def test_more_ranks_are_advised_where_the_same_number_never_fits() -> None:
    """A model that no layout of its ranks can hold gets as many as can, and nothing is planned on fewer."""
    toy, now = Toy(), Now(ranks=2, sizes=SIZES, savings=SAVINGS, least=Least(dense=64))
    advice = advised(20, toy, now)
    last = advice.effects[-1]
    assert last.fits
    assert (advice.floor, advice.fewest) == (32, 4)
    assert min(ranks for _, ranks in toy.planned) == 4


def test_the_batch_grows_with_the_ranks() -> None:
    """Where more replicas than the batch has sequences are needed, it is raised, and that is told."""
    sizes = Sizes(micro_batch_size=1, global_batch_size=2)
    shared = Now(ranks=2, sizes=sizes, least=Least(shared=64))

    def needs(settings: Mapping[str, str], ranks: int) -> Need | None:
        return Need(bytes=64 // ranks) if int(settings.get("global_batch_size", 2)) % ranks == 0 else None

    advice = advise(shared, Need(bytes=32), 8, needs)
    assert advice.effects[-1].settings["global_batch_size"] == "8"
    assert "a larger batch" in advice.effects[-1].cost


def test_where_nothing_helps_the_best_is_told() -> None:
    """What needs least is told with its largest part, after few plans."""
    toy = Toy()
    advice = advised(4, toy, Now(ranks=8, sizes=SIZES, savings=SAVINGS[:3], least=Least(dense=8)))
    assert not any(one.fits for one in advice.effects)
    assert advice.effects[-1].needed == min(one.needed for one in advice.effects)
    assert advice.largest == "weights"
    assert advice.plans + advice.refused == len(toy.planned) <= 20
    assert advice.refused == sum(toy.needs(*one) is None for one in list(toy.planned))


def test_few_plans_are_made() -> None:
    """Whatever the device, the search ends after few plans, and makes none twice."""
    for capacity in range(1, 100):
        toy = Toy()
        advised(capacity, toy)
        told = [(tuple(sorted(settings.items())), ranks) for settings, ranks in toy.planned]
        assert len(told) == len(set(told)) <= 24


def test_the_cheapest_is_tried_first() -> None:
    """What costs no arithmetic comes before what repeats a part, and before what divides the model."""
    names = [next(iter(change.degrees[0].settings.items())) for change in changes(NOW)]
    order = [("without_effect", "true"), ("repeat", "refused"), ("tensor_model_parallel_size", "2"), ("repeat", "all")]
    assert [name for name in names if name in order] == order
    assert names[-1] == order[-1]


def test_what_is_refused_is_neither_told_nor_counted_as_a_plan() -> None:
    """A saving and a size that are refused on any ranks are learned of, and left out of what is put together."""

    def needs(settings: Mapping[str, str], ranks: int) -> Need | None:
        stages = int(settings.get("pipeline_model_parallel_size", 1))
        refused = settings.keys() & {"mixed", "tensor_model_parallel_size", "context_parallel_size"}
        return None if refused else Need(bytes=64 // ranks + 8 // stages, activations=8 // stages)

    savings = (Saving(settings={"mixed": "true"}, cost="nothing"), Saving(settings={}, cost="stages wait", stages=2))
    now = Now(ranks=2, sizes=Sizes(micro_batch_size=1), savings=savings, least=Least(shared=64))
    for capacity, ranks in ((16, 8), (12, 8), (9, 16), (5, 64)):
        advice = advise(now, Need(bytes=40, activations=8), capacity, needs)
        assert [one.ranks for one in advice.effects if one.fits][:1] == [ranks]
        assert "mixed" not in advice.effects[0].settings
    assert advice.refused > 0


def test_micro_batches_of_many_sequences_hide_no_division() -> None:
    """What a division promises is judged with the micro batch of one sequence that it would be tried with."""

    def needs(settings: Mapping[str, str], _: int) -> Need | None:
        divided = [int(settings.get(f"{name}_parallel_size", 1)) for name in ("tensor_model", "context")]
        activations = 1600 * int(settings.get("micro_batch_size", micro)) // prod(divided)
        return Need(bytes=activations, activations=activations)

    for micro in (1, 2, 8):
        before = Need(bytes=1600 * micro, activations=1600 * micro)
        advice = advise(Now(ranks=64, sizes=Sizes(micro_batch_size=micro)), before, 150, needs)
        last = advice.effects[-1]
        assert last.fits
        assert last.settings["tensor_model_parallel_size"] == "8"
        assert last.settings["context_parallel_size"] == "2"


def test_no_empty_change_is_advised() -> None:
    """Where all changes are refused, the run as it is counts neither as a change nor as a plan."""
    planned = []

    def needs(settings: Mapping[str, str], ranks: int) -> Need | None:
        planned.append((settings, ranks))
        return None if settings or ranks > 1 else Need(bytes=100, activations=100)

    advice = advise(Now(ranks=1), Need(bytes=100, activations=100), 10, needs)
    assert advice.effects == ()
    assert advice.plans == 0
    assert ({}, 1) not in planned
    assert advice.refused == len(planned) > 0


def test_savings_without_effect_are_not_put_together() -> None:
    """In the division of now, what saves nothing alone is left out of what several changes reach."""
    toy = Toy()

    def needs(settings: Mapping[str, str], ranks: int) -> Need | None:
        return None if "tensor_model_parallel_size" in settings else toy.needs(settings, ranks)

    now = Now(ranks=8, sizes=SIZES, savings=SAVINGS[:3])
    last = advise(now, Need(bytes=104, activations=40), 70, needs).effects[-1]
    assert last.fits
    assert last.settings == {"micro_batch_size": "1", "repeat": "all"}
