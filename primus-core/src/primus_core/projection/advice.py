"""The cheapest changes of an experiment that make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from primus_core.records import frozen
from primus_core.shape import Saving

_ENOUGH = 3
"""Changes that each make it fit, after which no other is tried."""
_MOST_RANKS = 1 << 15
Setting = Mapping[str, str]
"""Parameters by name, as a command line says them."""
Needs = Callable[[Setting, int], int | None]
"""Bytes on the heaviest rank under these settings on so many ranks, margin included; None: such a run is refused."""


@frozen(kw_only=True)
class Now:
    """What the experiment says of the sizes that can be changed."""

    ranks: int
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    experts: int = 0
    micro_batch_size: int = 1
    savings: tuple[Saving, ...] = ()
    """What the back end can do with less memory."""


@frozen(kw_only=True)
class Change:
    """One thing to do, by degrees, the mildest first."""

    degrees: tuple[Setting, ...]
    cost: str
    """What it costs beside memory, in a few words."""


@frozen(kw_only=True)
class Effect:
    """What a change, or several together, would do."""

    settings: Setting
    ranks: int
    """In all, then."""
    cost: str
    needed: int
    """Bytes on the heaviest rank afterwards, margin included."""
    saved: int
    """Bytes less than now."""
    fits: bool


def changes(now: Now) -> tuple[Change, ...]:
    """All that is tried, the cheapest first: by arithmetic that is repeated, then by what is sent between ranks."""
    return tuple(change for change in _changes(now) if change.degrees)


def _changes(now: Now) -> Iterator[Change]:
    yield from _told(now, "nothing")
    sizes = (now.micro_batch_size >> power for power in range(1, now.micro_batch_size.bit_length()))
    smaller = tuple({"micro_batch_size": str(size)} for size in sizes)
    yield Change(degrees=smaller, cost="smaller products of matrices")
    yield from _told(now, "part")
    yield _divided("expert_model_parallel_size", now.expert, "tokens travel to their experts", now.experts)
    yield _divided("tensor_model_parallel_size", now.tensor, "more exchange within each layer", 8)
    yield _divided("context_parallel_size", now.context, "more exchange within attention", 8)
    yield _divided("pipeline_model_parallel_size", now.pipeline, "stages wait for each other", 16)
    yield from _told(now, "all")


def _told(now: Now, repeats: str) -> Iterator[Change]:
    """What the back end can do, of those that repeat so much."""
    yield from (Change(degrees=(one.settings,), cost=one.cost) for one in now.savings if one.repeats == repeats)


def _divided(name: str, now: int, cost: str, most: int) -> Change:
    sizes = (now << power for power in range(1, max(1, most).bit_length()))
    return Change(degrees=tuple({name: str(size)} for size in sizes if size <= most), cost=cost)


def advise(now: Now, before: int, capacity: int, needs: Needs) -> tuple[Effect, ...]:
    """Changes that save memory, each alone; where none is enough, the cheapest first together, and on more ranks.

    Args:
        before: bytes on the heaviest rank now.
        capacity: bytes of the device.
        needs: re-plans the experiment.
    """
    return _Advice(now=now, before=before, capacity=capacity, needs=needs).effects()


@frozen(kw_only=True)
class _Advice:
    now: Now
    before: int
    capacity: int
    needs: Needs

    def effects(self) -> tuple[Effect, ...]:
        alone = list(self._alone())
        if any(effect.fits for effect in alone) or not alone:
            return tuple(alone)
        together = self._together(alone)
        if together is not None and together.fits:
            return (*alone, together)
        best = together or max(alone, key=lambda effect: effect.saved)
        return (*alone, *([together] if together else []), *self._on_more_ranks(best.settings, best.cost))

    def _alone(self) -> Iterator[Effect]:
        """Until a few are enough: the others cost more."""
        enough = 0
        for change in changes(self.now):
            effect = self._least(change)
            if effect is not None:
                yield effect
                enough += effect.fits
            if enough == _ENOUGH:
                return

    def _least(self, change: Change) -> Effect | None:
        """The mildest degree that is enough; else the strongest that is not refused."""
        strongest = next(filter(None, (self._effect(one, change.cost) for one in reversed(change.degrees))), None)
        if strongest is None or strongest.saved <= 0:
            return None
        if not strongest.fits:
            return strongest
        milder = (self._effect(one, change.cost) for one in change.degrees[:-1])
        return next((effect for effect in milder if effect and effect.fits), strongest)

    def _together(self, alone: Sequence[Effect]) -> Effect | None:
        """The changes in their order, until they are enough; what is refused beside the others is left out."""
        best: Effect | None = None
        taken: list[Effect] = []
        for effect in alone:
            kept = [one for one in taken if not one.settings.keys() & effect.settings.keys()]
            both = self._effect(_merged([*kept, effect]), _costs([*kept, effect]))
            if both is not None and (best is None or both.needed < best.needed):
                best, taken = both, [*kept, effect]
            if best is not None and best.fits:
                break
        return best if len(taken) > 1 else None

    def _on_more_ranks(self, settings: Setting, cost: str) -> Iterator[Effect]:
        """Four times the ranks, sixteen times and so on, with experts, stages or both divided further."""
        factor = 4
        while self.now.ranks * factor <= _MOST_RANKS:
            for wider in self._wider(factor):
                ranks = self.now.ranks * factor
                effect = self._effect({**settings, **wider}, "; ".join(filter(None, [cost, "more ranks"])), ranks)
                if effect is not None and effect.fits:
                    yield effect
                    return
            factor *= 4

    def _wider(self, factor: int) -> Iterator[Setting]:
        stages = {"pipeline_model_parallel_size": str(min(16, self.now.pipeline * factor))}
        experts = {"expert_model_parallel_size": str(min(self.now.experts, self.now.expert * factor))}
        yield from (experts, {**experts, **stages}) if self.now.experts else ()
        yield stages
        yield {}

    def _effect(self, settings: Setting, cost: str, ranks: int | None = None) -> Effect | None:
        ranks = ranks or self.now.ranks
        needed = self.needs(settings, ranks)
        if needed is None:
            return None
        return Effect(
            settings=settings,
            ranks=ranks,
            cost=cost,
            needed=needed,
            saved=self.before - needed,
            fits=needed <= self.capacity,
        )


def _merged(effects: Sequence[Effect]) -> dict[str, str]:
    return {name: value for effect in effects for name, value in effect.settings.items()}


def _costs(effects: Sequence[Effect]) -> str:
    return "; ".join(dict.fromkeys(effect.cost for effect in effects))
