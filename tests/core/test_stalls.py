"""Judging a stall: who waits, who is missing, what counts as a stall at all, and which rank is slow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from primus_core.rank.answers import Answer, ranks_text
from primus_core.rank.inquiry import Inquiry
from primus_core.rank.judgement import judge
from primus_core.rank.limits import APART_SECONDS, LEAST_SECONDS, Limits
from primus_core.rank.stalltext import start_text, verdict_of
from primus_core.rank.standing import Call, Frame, main_thread
from primus_core.rank.stragglers import Fleet, Measure, Window
from primus_core.rank.waitedfor import waited_for

LOOP = (Frame("/x/train.py", 31, "loop"), Frame("/x/train.py", 12, "main"))
WAIT = (Frame("/s/torch/distributed/distributed_c10d.py", 9, "all_reduce"), Frame("/x/train.py", 20, "step"))


def call(number: int, *, done: bool = True, group: str = "0", name: str = "all_reduce") -> Call:
    return Call(group, "", number, name, "[[4]]", done, between_two=False)


def calls(upto: int, *, pending: bool = False, group: str = "0") -> list[Call]:
    return [call(number, done=not (pending and number == upto), group=group) for number in range(1, upto + 1)]


def answer(
    rank: int,
    made: Sequence[Call] = (),
    stack: Sequence[Frame] = WAIT,
    *,
    idle: float = 60.0,
    phase: str = "train",
    iteration: int | None = 5,
    groups: dict[str, list[int]] | None = None,
) -> Answer:
    return Answer(rank, f"h{rank}", phase, iteration, idle, 10.0, "S", stack, made, groups or {})


def among(*answers: Answer) -> dict[int, Answer]:
    return {one.rank: one for one in answers}


def test_the_rank_that_is_behind_in_a_collective_is_the_cause() -> None:
    """Others have begun number 3 and not ended it; the one whose last is 2 is missing there."""
    found = judge(
        among(answer(0, calls(3, pending=True)), answer(1, calls(2), LOOP), answer(2, calls(3, pending=True))), 3
    )
    assert (found.causes, found.waiting) == ((1,), (0, 2))
    assert found.wait is not None
    assert found.wait.text == "all_reduce #3 of the default group, input [[4]]"


def test_a_missing_rank_that_waits_elsewhere_is_not_the_cause() -> None:
    """0 waits for 1 in one group, 1 for 2 in another: 2 is the cause, although nobody in 0's group misses it."""
    table = {"0": [0, 1, 2], "7": [0, 1], "8": [1, 2]}
    found = judge(
        among(
            answer(0, calls(4, pending=True, group="7"), groups=table),
            answer(1, [*calls(3, group="7"), *calls(2, pending=True, group="8")], groups=table),
            answer(2, calls(1, group="8"), LOOP, groups=table),
        ),
        3,
    )
    assert (found.causes, found.waiting) == ((2,), (0, 1))


def test_ranks_that_wait_for_each_other_are_all_the_cause() -> None:
    """Two ranks that entered the collectives of two groups in different order are both missing somewhere."""
    table = {"7": [0, 1], "8": [0, 1]}
    found = judge(
        among(
            answer(0, calls(1, pending=True, group="7"), groups=table),
            answer(1, calls(1, pending=True, group="8"), groups=table),
        ),
        2,
    )
    assert found.causes == (0, 1)


def test_a_rank_without_an_answer_is_missing() -> None:
    """A host that is gone answers nothing; the others wait in a collective that it has not come to."""
    found = judge(among(answer(0, calls(3, pending=True)), answer(1, calls(3, pending=True))), 3)
    assert found.causes == (2,)


@pytest.mark.parametrize("ahead", [0, 1])
def test_of_two_ranks_the_one_that_is_further_on_left_a_collective_out(ahead: int) -> None:
    """Both wait under the same number in different collectives, and no majority says which one is wrong."""
    other = [*calls(2), call(3, done=False, name="barrier")]
    made = {ahead: answer(ahead, other, iteration=3)}
    made[1 - ahead] = answer(1 - ahead, calls(3, pending=True), iteration=2)
    found = judge(made, 2)
    assert (found.causes, found.waiting) == ((ahead,), (1 - ahead,))
    assert "called barrier" in found.differences[0].text


def test_without_a_recorder_the_stacks_tell_who_waits() -> None:
    """A rank whose stack is not in torch.distributed while others' are is the cause."""
    found = judge(among(answer(0), answer(1, stack=LOOP), answer(2)), 3)
    assert (found.causes, found.waiting) == ((1,), (0, 2))


def test_nobody_is_blamed_where_all_are_in_the_collective() -> None:
    """Then it is the network or a device, and the words say so."""
    answers = among(answer(0, calls(3, pending=True)), answer(1, calls(3, pending=True)))
    assert judge(answers, 2).causes == ()
    verdict = verdict_of("hang", answers, 2, {}, "/r/ranks")
    assert "no rank is missing there" in verdict["text"]
    assert "network" in verdict["problem"]["remedy"]
    assert verdict["speaks"] == [0]


@pytest.mark.parametrize("idle", [0.0, 9.0])
def test_a_rank_that_goes_on_means_that_there_is_no_stall(idle: float) -> None:
    """Somebody evaluates, saves or works: those that wait for it are no hang."""
    answers = among(answer(0, calls(3, pending=True)), answer(1, calls(2), LOOP, idle=idle))
    assert verdict_of("hang", answers, 2, {}, "/r/ranks") == {"kind": "none"}


def test_a_rank_that_has_ended_is_named_with_its_end() -> None:
    """The one that would have to tell is gone; a rank that waits for it tells what its report says."""
    verdict = verdict_of(
        "hang", among(answer(0, calls(3, pending=True))), 2, {1: "has ended with exit code 0 in phase done"}, "/r/ranks"
    )
    assert verdict["speaks"] == [0]
    assert "rank 1: has ended with exit code 0 in phase done" in verdict["problem"]["why"]


def test_the_words_on_a_slow_start_group_the_ranks_by_what_they_wait_for() -> None:
    """Three ranks at one place are one part of the sentence; a rank that never answered is part of it too."""
    lock = (Frame("/s/torch/utils/file_baton.py", 3, "wait"), *LOOP)
    text = start_text(among(*(answer(rank, stack=lock, iteration=None) for rank in (0, 1, 2))), 4)
    assert text.startswith("no first iteration, and nothing new for 60 s: ranks 0-2: phase train, waits for another")
    assert text.endswith(
        "at /x/train.py:31 in loop, from /x/train.py:12 in main; rank 3: no answer, not started or out of reach"
    )


@pytest.mark.parametrize(
    ("phase", "file", "function", "expected"),
    [
        ("wait for data on rank 0", "/x/y.py", "f", "data on rank 0"),
        ("init", "/s/torch/distributed/distributed_c10d.py", "init_process_group", "the rendezvous"),
        ("train", "/s/megatron/core/datasets/gpt_dataset.py", "build", "the index of the training data"),
        ("import", "/x/y.py", "f", ""),
    ],
)
def test_what_is_waited_for_is_read_from_phase_and_stack(phase: str, file: str, function: str, expected: str) -> None:
    """Places that are known to wait are put into words; others are left to the place itself."""
    found = waited_for(phase, [Frame(file, 1, function)])
    assert found.startswith(expected) if expected else found == ""


def test_limits_are_learnt_and_evaluations_and_saves_have_their_own() -> None:
    """Ten median steps, three longest ones, never under the least; a phase apart may last ten times its longest."""
    limits = Limits(None)
    assert limits.step == LEAST_SECONDS
    for seconds in (50.0, 50.0, 170.0):
        limits.learn_step(seconds)
    assert limits.step == 510.0
    assert limits.apart("save") == APART_SECONDS
    limits.learn_phase("save", 200.0)
    assert (limits.apart("save"), limits.apart("evaluate")) == (2000.0, APART_SECONDS)


def test_a_limit_that_is_set_holds_for_steps_alone() -> None:
    """The user's 2 s say nothing about a save."""
    limits = Limits(2.0)
    limits.learn_step(50.0)
    assert (limits.step, limits.apart("save")) == (2.0, APART_SECONDS)


def test_the_main_thread_is_found_in_what_faulthandler_writes() -> None:
    """Threads come youngest first, each with its innermost frame first."""
    text = (
        'Current thread 0x00007f (most recent call first):\n  File "/a.py", line 1 in poll\n\n'
        'Thread 0x00008f (most recent call first):\n  File "/b.py", line 22 in inner\n'
        '  File "/b.py", line 3 in <module>\n'
    )
    assert main_thread(text) == [Frame("/b.py", 22, "inner"), Frame("/b.py", 3, "<module>")]


def test_ranks_are_told_as_spans() -> None:
    """Neighbours share a span; more than eight spans are cut and counted."""
    assert [ranks_text(ranks) for ranks in ([3], [7, 0, 5, 6])] == ["rank 3", "ranks 0, 5-7"]
    assert ranks_text(range(0, 40, 2)) == "ranks 0, 2, 4, 6, 8, 10, 12, 14, ... (20 in all)"


def test_one_rank_judges_and_all_get_its_verdict(tmp_path: Path) -> None:
    """The first that asks judges when all have answered; an answer can be taken back; the next inquiry is another."""
    first, second = (Inquiry(str(tmp_path), rank, 2) for rank in (0, 1))
    first.open()
    second.open()
    assert first.is_asked()
    assert second.is_asked()
    first.answer(answer(0))
    assert first.answers() is None
    second.answer(answer(1))
    second.moved()
    found = first.answers()
    assert found is not None
    assert [one.idle for one in found.values()] == [60.0, 0.0]
    assert second.answers() is None
    first.decide({"kind": "none"})
    assert first.verdict() == second.verdict() == {"kind": "none"}
    assert not first.is_asked()
    assert Inquiry(str(tmp_path), 0, 2).is_asked() is False


def window(rank: int, own: float, number: int = 1) -> Window:
    return Window(rank, f"h{rank}", number, own, 1.0, 10 * number)


def test_a_slow_rank_is_found_in_its_second_window_and_once() -> None:
    """One slow window may be an accident; a third one is no news."""
    fleet = Fleet(4, 1, 1.5)
    found = [fleet.compare([window(rank, 0.9 if rank == 2 else 0.3) for rank in range(4)]) for _ in range(4)]
    assert [[slow.window.rank for slow in slows] for slows in found] == [[], [2], [], []]
    assert found[1][0].fleet_score == pytest.approx(3.0)
    assert "slow from the start" in found[1][0].text(1.5)


@pytest.mark.parametrize(
    ("own", "others"), [((0.9, 0.1), 0.1), ((0.9, 0.1, 0.3), 0.2), ((0.1, 0.2, 0.9, 0.2, 0.3), 0.2)]
)
def test_a_rank_is_compared_with_the_median_of_the_others(own: tuple[float, ...], others: float) -> None:
    """Its own figure is not among them: of two ranks the slow one would else be half of its own measure."""
    fleet = Fleet(len(own), 1, 1.5)
    windows = [window(rank, seconds) for rank, seconds in enumerate(own)]
    fleet.compare(windows)
    (slow,) = fleet.compare(windows)
    assert slow.window.own == 0.9
    assert slow.others == pytest.approx(others)


def test_a_rank_that_becomes_slow_is_told_so() -> None:
    """Its score against its own best says since when it is not what it was."""
    fleet = Fleet(2, 1, 1.5)
    for own in (0.3, 0.3, 0.9):
        fleet.compare([window(0, 0.3), window(1, own)])
    (slow,) = fleet.compare([window(0, 0.3), window(1, 0.9)])
    assert "it became slow (3.0 times its best window)" in slow.text(1.5)


def test_stages_of_a_pipeline_are_not_compared_with_each_other() -> None:
    """The last stage does more by its nature; a rank is slow among those of its own stage."""
    fleet = Fleet(4, 2, 1.5)
    own = {0: 0.2, 1: 0.2, 2: 0.6, 3: 0.6}
    assert [fleet.compare([window(rank, seconds) for rank, seconds in own.items()]) for _ in range(3)] == [[], [], []]


def test_a_small_loss_is_not_told() -> None:
    """Three times next to nothing is next to nothing: under a twentieth of the step nobody waits long."""
    fleet = Fleet(2, 1, 1.5)
    assert [fleet.compare([window(0, 0.01), window(1, 0.03)]) for _ in range(3)] == [[], [], []]


def test_own_time_is_what_was_not_waited() -> None:
    """A window is ten iterations and a second at least; what interrupts the iterations begins it anew."""
    measure = Measure(0, "h0")
    assert measure.row(1, 100.0, 7.0) is None
    measure.interrupted()
    assert measure.row(2, 200.0, 7.0) is None
    assert measure.row(5, 202.0, 7.5) is None
    found = measure.row(12, 205.0, 9.0)
    assert found is not None
    assert (found.number, found.iteration) == (1, 12)
    assert [found.own, found.step] == pytest.approx([0.3, 0.5])
