"""What can be changed of an experiment so that it needs less memory, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, field

from primus_core.projection.bounds import Least, Sizes
from primus_core.records import frozen
from primus_core.shape import Saving

Setting = Mapping[str, str]
"""Parameters by name, as a command line says them."""
_NAMES = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
    "micro_batch_size": "micro_batch_size",
    "global_batch_size": "global_batch_size",
}
_MOST = {"tensor": 8, "context": 8}
"""Ranks, beyond which exchange leaves a host."""
COSTS = {
    "micro_batch_size": "smaller products of matrices",
    "expert": "tokens travel to their experts",
    "tensor": "more exchange within each layer",
    "context": "more exchange within attention",
    "pipeline": "stages wait for each other",
    "global_batch_size": "a larger batch",
}
"""Of other sizes."""
DIVIDING = ("expert", "tensor", "context", "pipeline")
"""The cheapest first."""


@frozen(kw_only=True)
class Now:
    """What the experiment says of the sizes that can be changed."""

    ranks: int
    sizes: Sizes = Sizes()
    experts: int = 0
    savings: tuple[Saving, ...] = ()
    """What the back end can do with less memory."""
    least: Least = Least()
    names: Mapping[str, str] = field(factory=dict)
    """By size, how the experiment spells it, where not by its portable name."""

    def told(self, repeats: str) -> Iterator[Saving]:
        """What the back end can do on the same ranks, of what repeats so much."""
        yield from (one for one in self.savings if one.repeats == repeats and not one.stages and not one.tensor)

    def settings(self, sizes: Sizes) -> dict[str, str]:
        """What a command line says to get other sizes than now, in the back end's words where it has any."""
        words: dict[str, str] = {}
        for size, name in _NAMES.items():
            value = getattr(sizes, size)
            if value == getattr(self.sizes, size):
                continue
            staged = next((one for one in self.savings if size == "pipeline" and one.stages == value), None)
            words |= {self.names.get(size, name): str(value), **(staged.settings if staged else {})}
        for one in self.savings:
            words |= one.settings if one.tensor and sizes.tensor > self.sizes.tensor else {}
        return words


@frozen(kw_only=True)
class Degree:
    """How far a change goes."""

    settings: Setting
    sizes: Sizes | None = None
    """None: they stay."""


@frozen(kw_only=True)
class Change:
    """One thing to do, by degrees, the mildest first."""

    degrees: tuple[Degree, ...]
    cost: str
    """What it costs beside memory, in a few words."""


def changes(now: Now) -> tuple[Change, ...]:
    """All that is tried, the cheapest first: by arithmetic that is repeated, then by what is sent between ranks."""
    return tuple(change for change in _changes(now) if change.degrees)


def _changes(now: Now) -> Iterator[Change]:
    yield from _told(now, "nothing")
    yield _sized(now, "micro_batch_size", smaller(now.sizes.micro_batch_size))
    yield from _told(now, "part")
    for size in DIVIDING:
        yield _sized(now, size, larger(now, size))
    yield from _told(now, "all")


def _told(now: Now, repeats: str) -> Iterator[Change]:
    yield from (Change(degrees=(Degree(settings=one.settings),), cost=one.cost) for one in now.told(repeats))


def _sized(now: Now, size: str, values: tuple[int, ...]) -> Change:
    found = [evolve(now.sizes, **{size: value}) for value in values]
    legal = (sizes for sizes in found if divides(now, sizes, now.ranks) and _batch(sizes, now.ranks) is None)
    degrees = tuple(Degree(settings=now.settings(sizes), sizes=sizes) for sizes in legal)
    return Change(degrees=degrees, cost=COSTS[size])


def smaller(size: int) -> tuple[int, ...]:
    """Halves and quarters of a size, down to 1."""
    return tuple(size >> power for power in range(1, size.bit_length()))


def larger(now: Now, size: str) -> tuple[int, ...]:
    """Twice as many ranks of a kind, four times and so on; as many stages as the back end can make."""
    value = getattr(now.sizes, size)
    if size == "pipeline":
        return tuple(sorted(one.stages for one in now.savings if one.stages > value))
    most = now.experts if size == "expert" else _MOST[size]
    return tuple(value << power for power in range(1, max(1, most).bit_length()) if value << power <= most)


def divides(now: Now, sizes: Sizes, ranks: int) -> bool:
    """Whether ranks and experts divide; all else is the planning's to refuse."""
    experts = sizes.pipeline * sizes.expert * sizes.expert_tensor
    if ranks % sizes.replica or (now.experts and ranks % experts):
        return False
    return not now.experts or now.experts % sizes.expert == 0


def _batch(sizes: Sizes, ranks: int) -> int | None:
    """The batch that divides among the ranks instead of the one that does not; None: it does."""
    batch, step = sizes.global_batch_size, sizes.at_once(ranks)
    return None if batch is None or batch % step == 0 else -(-batch // step) * step


def divisions(now: Now, ranks: int) -> list[Sizes]:
    """All ways to divide the model further among so many ranks, the cheapest first, with the batch that this needs."""
    found = []
    for expert in (now.sizes.expert, *larger(now, "expert")):
        for tensor in (now.sizes.tensor, *larger(now, "tensor")):
            for context in (now.sizes.context, *larger(now, "context")):
                for pipeline in (now.sizes.pipeline, *larger(now, "pipeline")):
                    sizes = evolve(now.sizes, expert=expert, tensor=tensor, context=context, pipeline=pipeline)
                    if divides(now, sizes, ranks):
                        found.append(sizes)
    return sorted(found, key=lambda sizes: _exchange(now, sizes))


def with_batch(sizes: Sizes, ranks: int) -> Sizes:
    """With a batch that divides among the ranks."""
    return evolve(sizes, global_batch_size=_batch(sizes, ranks) or sizes.global_batch_size)


def _exchange(now: Now, sizes: Sizes) -> int:
    """How much more is sent: doublings, those of the dearer kinds counted more often."""
    return sum(
        place * (getattr(sizes, size) // getattr(now.sizes, size)).bit_length()
        for place, size in enumerate(DIVIDING, start=1)
    )


def costs_of(now: Now, sizes: Sizes) -> list[str]:
    """What other sizes than now cost."""
    return [cost for size, cost in COSTS.items() if getattr(sizes, size) != getattr(now.sizes, size)]
