"""In which order a pipeline rank runs its micro batches, as far as it matters for memory.

A step is told with what is kept before it of other micro batches. Steady states repeat, so the number of steps is
bounded by the number of stages and not by that of micro batches. Sources of the orders:
for one chunk ``1F1B`` and ``GPipe``, for several the interleaved one of Narayanan et al. (arXiv:2104.04473), which
Megatron and PyTorch share, breadth first (arXiv:2211.05953), zero bubble (arXiv:2401.10241) and DualPipeV.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat

from attrs import evolve

from primus_core.projection.playing import Action, Kind, State, Step
from primus_core.shape import Schedule, ScheduleName

_AHEAD: frozenset[ScheduleName] = frozenset({"interleaved_1f1b", "looped_bfs", "zero_bubble", "zbv", "dualpipev"})
"""PyTorch's schedules of several chunks gather the weights of each before it first runs."""
_HALVING: frozenset[ScheduleName] = frozenset({"zero_bubble", "zbv", "dualpipev"})
"""Those that compute gradients of weights apart."""


def steps(schedule: Schedule, rank: int, ranks: int, chunks: int) -> list[Step]:
    """All distinct steps of a pipeline rank."""
    if schedule.name in ("none", "gpipe", "looped_bfs"):
        return list(_in_bulk(schedule, chunks))
    actions = list(_actions(schedule, rank, ranks, chunks))
    passes = sum(kind == "forward" and chunk == 0 for kind, chunk in actions)
    state = State(chunks, ahead=schedule.name in _AHEAD)
    played = _played(list(_as_run(actions, first=rank == 0)), state, schedule.micro_batches - passes)
    return list({evolve(step, given=()) if step.given else step: step for step in played}.values())


def halved(schedule: Schedule, rank: int, ranks: int, chunks: int) -> tuple[int, ...]:
    """By chunk of a pipeline rank, the micro batches whose gradients of weights come apart from those of activations.

    Micro batches that the bounded order leaves out run backward as those in its middle do.
    """
    if schedule.name not in _HALVING:
        return (0,) * chunks
    ran = Counter(_as_run(list(_actions(schedule, rank, ranks, chunks)), first=rank == 0))
    left_out = [
        0 if ran["backward", chunk] else schedule.micro_batches - ran["forward", chunk] for chunk in range(chunks)
    ]
    return tuple(ran["weight", chunk] + number for chunk, number in enumerate(left_out))


def _as_run(actions: list[Action], *, first: bool) -> Iterator[Action]:
    """The chunk that nothing sends to has no gradient of its input: all its backward pass comes with the weights. The
    gradients of a chunk are reduced after its last pass."""
    told = [
        ("backward" if kind == "weight" else kind, chunk) if first and chunk == 0 else (kind, chunk)
        for kind, chunk in actions
        if not (first and chunk == 0 and kind == "input")
    ]
    last = {chunk: index for index, (_, chunk) in enumerate(told)}
    for index, (kind, chunk) in enumerate(told):
        yield kind, chunk
        if last[chunk] == index:
            yield "reduce", chunk


def _in_bulk(schedule: Schedule, chunks: int) -> Iterator[Step]:
    """All micro batches forward, chunk by chunk, then backward; or one after the other."""
    piped = schedule.name != "none"
    count, everyone = schedule.micro_batches if piped else 1, frozenset(range(chunks))
    step = partial(Step, halved=tuple(repeat(0, chunks)))
    for trained in (frozenset[int](), everyone) if schedule.micro_batches > count else (frozenset[int](),):
        for chunk in range(chunks):
            for others in sorted({0, count - 1}):
                kept = _kept(chunk, count, others, chunks)
                ahead = frozenset(range(chunk + (others > 0), chunks)) if schedule.name in _AHEAD else frozenset[int]()
                yield step(kind="forward", chunk=chunk, kept=kept, trained=trained, gathered=ahead)
        for chunk in reversed(range(chunks)):
            after, own = frozenset(range(chunk + 1, chunks)), frozenset({chunk})
            ran, reduced = trained | after, after if piped else frozenset[int]()
            for others in sorted({count - 1, max(0, count - 2)}, reverse=True):
                kept, first = _kept(chunk, count, others, chunks), others == count - 1
                mine = frozenset[int]() if first else own
                yield step(kind="backward", chunk=chunk, kept=kept, trained=ran | mine, reduced=reduced, gathered=mine)
            if piped:
                kept = _kept(chunk, count, 0, chunks)
                yield step(kind="reduce", chunk=chunk, kept=kept, trained=ran | own, reduced=reduced)


def _kept(chunk: int, count: int, others: int, chunks: int) -> tuple[int, ...]:
    return (*repeat(count, chunk), others, *repeat(0, chunks - chunk - 1))


def _played(actions: Sequence[Action], state: State, left_out: int) -> Iterator[Step]:
    """All steps; so many micro batches in the middle are `left_out`."""
    for index, (kind, chunk) in enumerate(actions):
        after = next(iter(actions[index + 1 : index + 2]), None)
        coming = after[1] if after and after[0] == "forward" else None
        yield state.before(kind, chunk, coming, left_out if 2 * index > len(actions) else 0)
        state.after(kind, chunk)


def _actions(schedule: Schedule, rank: int, ranks: int, chunks: int) -> Iterator[Action]:
    if schedule.name == "1f1b":
        return _interleaved(_bounded(schedule, ranks, ranks), ranks - rank - 1, schedule.micro_batches, 1)
    if schedule.name == "zbv":
        return _zbv(schedule, rank, ranks)
    if schedule.name == "dualpipev":
        return _dualpipev(schedule, rank, ranks)
    size = _round(schedule, ranks)
    count = _bounded(schedule, ranks, size)
    zero = schedule.name == "zero_bubble"
    warm = (chunks - 1) * size + (1 if zero else 2) * (ranks - rank - 1)
    if zero:
        return _zero_bubble(count, min(warm, count * chunks), size, chunks, rank)
    return _interleaved(count, min(warm, count * chunks), size, chunks)


def _round(schedule: Schedule, ranks: int) -> int:
    return min(schedule.round or ranks, schedule.micro_batches)


def _bounded(schedule: Schedule, ranks: int, size: int) -> int:
    """As many micro batches as make every state of the whole step: the last round is as incomplete as there."""
    rounds = 4 + 2 * ranks // size
    count = schedule.micro_batches
    return count if count <= rounds * size else rounds * size + count % size


def _chunk(position: int, size: int, count: int, chunks: int) -> int:
    """Of the position-th pass: each chunk runs a round of micro batches, the last of which may be smaller."""
    done = position // (size * chunks) * size
    here = min(size, count - done)
    return (position - done * chunks) // here


def _interleaved(count: int, warm: int, size: int, chunks: int) -> Iterator[Action]:
    total = count * chunks
    warm = min(warm, total)
    for position in range(warm):
        yield "forward", _chunk(position, size, count, chunks)
    for position in range(total):
        if warm + position < total:
            yield "forward", _chunk(warm + position, size, count, chunks)
        yield "backward", chunks - 1 - _chunk(position, size, count, chunks)


def _zero_bubble(count: int, warm: int, size: int, chunks: int, rank: int) -> Iterator[Action]:
    """As interleaved; a gradient of weights follows that of activations by as many passes as the rank's number."""
    total, weights = count * chunks, 0
    for position in range(warm):
        yield "forward", _chunk(position, size, count, chunks)
    for position in range(total):
        if warm + position < total:
            yield "forward", _chunk(warm + position, size, count, chunks)
        yield "input", chunks - 1 - _chunk(position, size, count, chunks)
        if position >= rank:
            yield "weight", chunks - 1 - _chunk(weights, size, count, chunks)
            weights += 1
    for position in range(weights, total):
        yield "weight", chunks - 1 - _chunk(position, size, count, chunks)


def _zbv(schedule: Schedule, rank: int, ranks: int) -> Iterator[Action]:
    """Two chunks, of which the second runs through the ranks backwards; what exceeds the micro batches is left out."""
    count = min(schedule.micro_batches, 4 * ranks)
    numbered = _zbv_numbered(max(2 * ranks - 1, count), rank, ranks)
    return ((kind, chunk) for kind, chunk, number in numbered if number < count)


def _zbv_numbered(count: int, rank: int, ranks: int) -> Iterator[tuple[Kind, int, int]]:
    done: dict[Action, int] = {}

    def act(kind: Kind, chunk: int) -> tuple[Kind, int, int]:
        number = done.get((kind, chunk), 0)
        done[kind, chunk] = number + 1
        return kind, chunk, number

    def whole(chunk: int) -> Iterator[tuple[Kind, int, int]]:
        yield act("input", chunk)
        yield act("weight", chunk)

    for _ in range(2 * (ranks - rank) - 1):
        yield act("forward", 0)
    for _ in range(rank):
        yield act("forward", 1)
        yield act("forward", 0)
    for _ in range(ranks - rank):
        yield act("forward", 1)
        yield from whole(1)
    while done.get(("forward", 1), 0) < done["forward", 0] or done["forward", 0] < count:
        if done["forward", 0] < count:
            yield act("forward", 0)
        yield from whole(0)
        yield act("forward", 1)
        yield from whole(1)
    for _ in range(rank):
        yield act("input", 0)
        yield act("input", 1)
    for _ in range(ranks - rank):
        yield from whole(0)
    for chunk in (1, 0):
        while done.get(("weight", chunk), 0) < done.get(("input", chunk), 0):
            yield act("weight", chunk)


def _dualpipev(schedule: Schedule, rank: int, ranks: int) -> Iterator[Action]:
    """Two chunks; a forward and a backward pass that overlap are taken one after the other."""
    count = min(schedule.micro_batches, 4 * ranks + schedule.micro_batches % 2)
    after = ranks - rank - 1
    yield from repeat(("forward", 0), 2 * after)
    for _ in range(rank + 1):
        yield from (("forward", 0), ("forward", 1))
    for _ in range(after):
        yield from (("input", 1), ("weight", 1), ("forward", 1))
    for _ in range(count - 2 * ranks + rank + 1):
        yield from (("forward", 0), ("backward", 1), ("forward", 1), ("backward", 0))
    for _ in range(after):
        yield from (("backward", 1), ("forward", 1), ("backward", 0))
    yield from _dualpipev_end(rank, after)


def _dualpipev_end(rank: int, after: int) -> Iterator[Action]:
    halves: list[int] = []
    for number in range(rank + 1):
        for chunk in (1, 0):
            late = number > (rank + 1) // 2 or (number == (rank + 1) // 2 and (rank % 2 == 1 or chunk == 0))
            yield ("input" if late else "backward"), chunk
            halves += [chunk] if late else []
    late = bool(halves)
    for _ in range(after):
        if halves:
            yield "weight", halves.pop(0)
        yield ("input" if late else "backward"), 0
        halves += [0] if late else []
    for chunk in halves:
        yield "weight", chunk
