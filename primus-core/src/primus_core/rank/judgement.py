"""Which rank is the cause of a stall, and which ones only wait for it. Standard library only.

The flight recorder numbers the collectives of each group. A rank whose last number is behind the one that others have
begun and not ended is missing there. A missing rank may itself wait, in another group, for one that is missing there:
the cause is the rank at the end of such a chain. Where the recorder has nothing, the Python stacks tell who waits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from primus_core.rank.answers import Answer, ranks_text
from primus_core.rank.standing import Call

_DEFAULT = "0"


class Wait(NamedTuple):
    """A collective that has begun and that some of its ranks have not come to."""

    call: Call
    waiting: tuple[int, ...]
    missing: tuple[int, ...]

    @property
    def text(self) -> str:
        """``all_reduce #12 of the default group, input [[4]]``."""
        return f"{self.call.name} #{self.call.number} of {group_text(self.call)}, input {self.call.sizes}"


def group_text(call: Call) -> str:
    """``the default group``, ``group 5 (TENSOR_MODEL_PARALLEL_GROUP)``."""
    if call.group == _DEFAULT:
        return "the default group"
    return f"group {call.group}" + (f" ({call.described})" if call.described else "")


class Difference(NamedTuple):
    """The first collective of a group that was not the same in all its ranks."""

    calls: Mapping[int, Call]

    @property
    def usual(self) -> Call:
        """What most of them called."""
        name = Counter(call.name for call in self.calls.values()).most_common(1)[0][0]
        return next(call for call in self.calls.values() if call.name == name)

    @property
    def few(self) -> tuple[int, ...]:
        """The ranks that called another one than most."""
        return tuple(sorted(rank for rank, call in self.calls.items() if call.name != self.usual.name))

    @property
    def text(self) -> str:
        by_name: dict[str, list[int]] = defaultdict(list)
        for rank, call in self.calls.items():
            by_name[call.name].append(rank)
        said = "; ".join(f"{ranks_text(ranks)} called {name}" for name, ranks in sorted(by_name.items()))
        return f"collective #{self.usual.number} of {group_text(self.usual)} is not the same everywhere: {said}"


class Judgement(NamedTuple):
    """Who stands where."""

    causes: tuple[int, ...]
    """Empty where every rank waits and none is missing: then it is the network or a device."""
    waiting: tuple[int, ...]
    wait: Wait | None
    """What is waited for, where the flight recorder knows it."""
    differences: tuple[Difference, ...] = ()


def judge(answers: Mapping[int, Answer], world_size: int) -> Judgement:
    """From what the ranks that could answer say.

    A rank of which there is no answer has ended or is out of reach: if others wait for it, it is the cause.
    """
    silent = set(range(world_size)) - set(answers)
    waits = list(_waits(answers, world_size))
    apart = tuple(_differences(answers))
    found = _by_absence(waits) or _by_difference(answers, apart) or _by_stack(answers, silent)
    return found._replace(differences=apart)


def _waits(answers: Mapping[int, Answer], world_size: int) -> Iterable[Wait]:
    """Of each group its furthest collective, where that waits for somebody."""
    members = _members(answers, world_size)
    for group, last in _last_calls(answers).items():
        top = max(last.values(), key=lambda call: call.number)
        waiting = tuple(sorted(rank for rank, call in last.items() if call.number == top.number and not call.done))
        there = {rank for rank, call in last.items() if call.number == top.number}
        missing = tuple(sorted(members.get(group, set(last)) - there))
        if waiting and missing:
            yield Wait(top, waiting, missing)


def _by_absence(waits: Sequence[Wait]) -> Judgement | None:
    """The missing ranks that do not themselves wait; if all of them do, they wait for each other in a circle."""
    if not waits:
        return None
    waiting = {rank for wait in waits for rank in wait.waiting}
    missing = {rank for wait in waits for rank in wait.missing}
    causes = (missing - waiting) or missing
    wait = next((one for one in waits if causes & set(one.missing)), waits[0])
    return Judgement(tuple(sorted(causes)), tuple(sorted((waiting | missing) - causes)), wait)


def _by_difference(answers: Mapping[int, Answer], apart: Sequence[Difference]) -> Judgement | None:
    """All are in a collective of the same number, but not in the same one."""
    if not apart:
        return None
    causes = apart[0].few
    if 2 * len(causes) == len(apart[0].calls):  # nobody is in the majority: who left one out is further on
        iterations = {rank: answers[rank].iteration or 0 for rank in apart[0].calls}
        causes = tuple(sorted(rank for rank, one in iterations.items() if one == max(iterations.values())))
    waiting = tuple(sorted(set(answers) - set(causes)))
    return Judgement(causes, waiting, Wait(apart[0].usual, waiting, causes))


def _by_stack(answers: Mapping[int, Answer], silent: set[int]) -> Judgement:
    waiting = {rank for rank, answer in answers.items() if answer.waits}
    causes = (set(answers) - waiting) or silent
    return Judgement(tuple(sorted(causes)), tuple(sorted(waiting)), None)


def _members(answers: Mapping[int, Answer], world_size: int) -> Mapping[str, set[int]]:
    """The global ranks of each group, as any of them tells."""
    members: dict[str, set[int]] = {_DEFAULT: set(range(world_size))}
    for answer in answers.values():
        for group, ranks in answer.groups.items():
            members.setdefault(group, set()).update(ranks)
    return members


def _last_calls(answers: Mapping[int, Answer]) -> Mapping[str, Mapping[int, Call]]:
    """Of each group, the last collective of each rank."""
    last: dict[str, dict[int, Call]] = defaultdict(dict)
    for rank, answer in answers.items():
        for call in answer.calls:
            if not call.between_two:
                last[call.group][rank] = call
    return last


def _differences(answers: Mapping[int, Answer]) -> Iterable[Difference]:
    """Of each group the first number under which its ranks called different collectives."""
    made: dict[tuple[str, int], dict[int, Call]] = defaultdict(dict)
    for rank, answer in answers.items():
        for call in answer.calls:
            if not call.between_two:
                made[call.group, call.number][rank] = call
    found = set()
    for (group, _), calls in sorted(made.items(), key=lambda item: item[0][1]):
        if group not in found and len({call.name for call in calls.values()}) > 1:
            found.add(group)
            yield Difference(calls)
