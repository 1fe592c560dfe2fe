"""A stall in words, and as the verdict by which all parents act. Standard library only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from primus_core.rank.answers import Answer, ranks_text
from primus_core.rank.judgement import Judgement, judge
from primus_core.rank.waitedfor import waited_for

NOTHING: Mapping[str, Any] = {"kind": "none"}
_MOST_PLACES = 4


def verdict_of(
    kind: str, answers: Mapping[int, Answer], world_size: int, ended: Mapping[int, str], folder: str
) -> Mapping[str, Any]:
    """What the judge writes.

    Args:
        kind: ``hang`` or ``start``, what the judge suspects.
        ended: how ranks of which there is no answer have ended, as far as that is known.
        folder: of the ranks' files.
    """
    if any(not answer.is_stalled and answer.phase != "done" for answer in answers.values()):
        return NOTHING
    if kind == "start":
        return {"kind": kind, "text": start_text(answers, world_size)}
    return _hang(answers, world_size, ended, folder)


def start_text(answers: Mapping[int, Answer], world_size: int) -> str:
    """Who waits for what before the first iteration."""
    idle = min(answer.idle for answer in answers.values())
    groups: dict[str, list[int]] = defaultdict(list)
    for rank, answer in answers.items():
        awaited = waited_for(answer.phase, answer.stack)
        wait = f", waits for {awaited}" if awaited and not answer.phase.startswith("wait for ") else ""
        groups[f"phase {answer.phase}{wait}, {answer.standing}"].append(rank)
    said = [f"{ranks_text(ranks)}: {text}" for text, ranks in groups.items()]
    silent = set(range(world_size)) - set(answers)
    said += [f"{ranks_text(silent)}: no answer, not started or out of reach"] if silent else []
    return f"no first iteration, and nothing new for {idle:.0f} s: {'; '.join(said)}"


def _hang(answers: Mapping[int, Answer], world_size: int, ended: Mapping[int, str], folder: str) -> Mapping[str, Any]:
    found = judge(answers, world_size)
    seconds = min(answer.idle for answer in answers.values())
    what = _what(found, seconds)
    differences = [difference.text for difference in found.differences]
    why = "\n".join([*_causes(found, answers, ended), *_waiting(found, answers), *differences])
    speaks = [rank for rank in found.causes if rank in answers] or [min(answers)]
    return {
        "kind": "hang",
        "text": what,
        "speaks": speaks,
        "stall": {
            "seconds": seconds,
            "collective": found.wait.text if found.wait else "",
            "missing": [_place(rank, answers.get(rank), ended) for rank in found.causes],
            "waiting": list(found.waiting),
        },
        "problem": {
            "what": f"it hangs: {what}",
            "where": _only_place(found, answers),
            "why": why,
            "remedy": _remedy(found, folder),
        },
    }


def _what(found: Judgement, seconds: float) -> str:
    where = f" in {found.wait.text}" if found.wait else " in a collective"
    if not found.causes:
        return f"{ranks_text(found.waiting)} have waited {seconds:.0f} s{where}, and no rank is missing there"
    if not found.waiting:
        return f"{ranks_text(found.causes)}: no progress for {seconds:.0f} s"
    have = "have" if len(found.waiting) > 1 else "has"
    return f"{ranks_text(found.waiting)} {have} waited {seconds:.0f} s for {ranks_text(found.causes)}{where}"


def _causes(found: Judgement, answers: Mapping[int, Answer], ended: Mapping[int, str]) -> Iterable[str]:
    """Where each rank that is missing stands instead; ranks at one place share a line."""
    places: dict[str, list[int]] = defaultdict(list)
    for rank in found.causes:
        answer = answers.get(rank)
        if answer is None:
            places[ended.get(rank, "gave no answer: its host or its parent process is gone")].append(rank)
        else:
            at = "" if _only_place(found, answers) else f"{answer.standing}; "
            places[f"{at}{answer.moment}{_progress(found, answer)}"].append(rank)
    yield from _listed(places)


def _only_place(found: Judgement, answers: Mapping[int, Answer]) -> str:
    """Where all the missing ranks stand; empty where they do not stand at one place."""
    places = {answers[rank].place if rank in answers else "" for rank in found.causes}
    return places.pop() if len(places) == 1 else ""


def _progress(found: Judgement, answer: Answer) -> str:
    """How many of the group's collectives a missing rank has begun."""
    if found.wait is None or not answer.calls:
        return ""
    numbers = [call.number for call in answer.calls if call.group == found.wait.call.group and not call.between_two]
    if not numbers:
        return ", it has begun none there"
    return f", its last there was #{max(numbers)}" if max(numbers) < found.wait.call.number else ""


def _waiting(found: Judgement, answers: Mapping[int, Answer]) -> Iterable[str]:
    places: dict[str, list[int]] = defaultdict(list)
    for rank in found.waiting:
        if rank in answers:
            places[f"{_verb(found.waiting)} {answers[rank].standing}; {answers[rank].moment}"].append(rank)
    yield from _listed(places)


def _verb(ranks: Sequence[int]) -> str:
    return "wait" if len(ranks) > 1 else "waits"


def _listed(places: Mapping[str, Sequence[int]]) -> Iterable[str]:
    for text, ranks in list(places.items())[:_MOST_PLACES]:
        yield f"{ranks_text(ranks)}{' ' if text.startswith('wait') else ': '}{text}"
    if len(places) > _MOST_PLACES:
        yield f"... and {len(places) - _MOST_PLACES} other places"


def _place(rank: int, answer: Answer | None, ended: Mapping[int, str]) -> Mapping[str, Any]:
    """`primus_core.outcome.Standing`."""
    if answer is None:
        return {"rank": rank, "place": ended.get(rank, "")}
    return {"rank": rank, "host": answer.host, "place": answer.place, "iteration": answer.iteration}


def _remedy(found: Judgement, folder: str) -> str:
    if not found.causes:
        look = "Nobody is missing, so look at the network between the hosts and at their devices."
    else:
        look = "See what the missing ranks wait for or loop in there, or why they left a collective out."
    return (
        f"{look} Stacks of all threads: {folder}/rank-*.stacks. "
        "Allow more time with hang_timeout_seconds=N, or let the run go on with hang_action=tell."
    )
