"""The cheapest changes of an experiment that make it fit.

Planning an experiment anew takes a hundredth of a second, so only few changes are: none that cannot fit by the size of
the model alone (`primus_core.projection.bounds`), nor by what a plan before has told of its activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import evolve, field

from primus_core.projection.bounds import Sizes
from primus_core.projection.changing import DIVIDING, Change, Now, Setting, changes, costs_of, divisions, with_batch
from primus_core.records import frozen
from primus_core.shape import Saving

_ENOUGH = 3
"""Changes that each make it fit, after which no other is tried."""
_MOST_PLANS = 16
"""After so many, or so many that were refused, no other division is tried."""
MOST_RANKS = 1 << 15
_STRONGEST = 3
_REPEATS = (("nothing",), ("nothing",), ("nothing", "part"), ("nothing", "all"))
"""By strength, the back end's savings that are taken; from the second on micro batches of one sequence, too."""
_OF_MODEL = ("tensor", "context")
"""Sizes that the model's own numbers allow or not, on however many ranks."""
_FELT = 0.01
"""Of what is needed now: a change that saves less, and is not enough, saves less than a projection may be off by."""
_CLOSER = 0.9
"""How much less than a division that was not enough another has to promise."""


@frozen(kw_only=True)
class Need:
    """Bytes on the heaviest rank."""

    bytes: int
    """Margin included."""
    activations: int = 0
    """Of these, what comes and goes in a step."""
    largest: str = ""
    """The component or kind that needs most."""
    largest_bytes: int = 0


Needs = Callable[[Setting, int], Need | None]
"""What is needed under these settings on so many ranks; None: such a run is refused."""


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


@frozen(kw_only=True)
class Advice:
    """What was found, and what was tried."""

    effects: tuple[Effect, ...] = ()
    one_is_enough: bool = False
    """On the same ranks."""
    floor: int = 0
    """Bytes of weights, gradients and the optimizer's state on each rank at least, however these ranks divide them."""
    fewest: int = 0
    """Ranks that can hold these, in doublings of now."""
    plans: int = 0
    """Experiments that were planned anew."""
    refused: int = 0
    """Others, which cannot run."""
    ranks: int = 0
    """The most on which one was."""
    largest: str = ""
    """What needs most in the plan that needs least."""
    largest_bytes: int = 0


def advise(now: Now, before: Need, capacity: int, needs: Needs) -> Advice:
    """Changes that save memory, each alone; where none is enough, several together, on as few ranks as can do.

    Args:
        before: what is needed now.
        capacity: bytes of the device.
        needs: re-plans the experiment.
    """
    return _Search(now, before, capacity, needs).advice()


@frozen
class _Search:
    now: Now
    before: Need
    capacity: int
    needs: Needs
    tried: dict[tuple[frozenset[tuple[str, str]], int], tuple[Effect, Need] | None] = field(factory=dict)
    """What was planned anew, in order; None: refused."""
    barred: set[frozenset[tuple[str, str]]] = field(factory=set)
    """Changes that were refused alone."""

    def advice(self) -> Advice:
        fewest = self._fewest()
        effects = list(self._alone()) if fewest == self.now.ranks else []
        enough = any(effect.fits for effect in effects)
        effects += [] if enough else self._together(fewest)
        found = [one for one in self.tried.values() if one is not None]
        best, need = min(found, key=lambda one: one[1].bytes, default=(None, None))
        if best and self._is_felt(best) and not any(effect.fits for effect in effects):
            effects = [*(effect for effect in effects if effect is not best), best]
        return Advice(
            effects=tuple(effects),
            one_is_enough=enough,
            floor=self.now.least.on(self.now.ranks),
            fewest=fewest,
            plans=len(found),
            refused=len(self.tried) - len(found),
            ranks=max((ranks for _, ranks in self.tried), default=self.now.ranks),
            largest=need.largest if need else "",
            largest_bytes=need.largest_bytes if need else 0,
        )

    def _fewest(self) -> int:
        ranks = self.now.ranks
        while self.now.least.on(ranks) > self.capacity and ranks < MOST_RANKS:
            ranks *= 2
        return ranks

    def _alone(self) -> Iterator[Effect]:
        """Until a few are enough: the others cost more."""
        enough = 0
        for change in changes(self.now):
            effect = self._mildest(change)
            if effect is not None and self._is_felt(effect):
                yield effect
                enough += effect.fits
            if enough == _ENOUGH:
                return

    def _is_felt(self, effect: Effect) -> bool:
        return effect.fits or effect.saved > _FELT * self.before.bytes

    def _mildest(self, change: Change) -> Effect | None:
        """The mildest degree that is enough; else the strongest of those that promised to be and are not refused.

        The next degree is twice as strong: of what the last one needs beyond its promise it saves half at most.
        """
        last, missed = None, 0
        for degree in change.degrees:
            least = self._least(degree.sizes, self.now.ranks) if degree.sizes else 0
            if least + missed // 2 > self.capacity:
                continue
            effect = self._effect(degree.settings, self.now.ranks, change.cost)
            if effect is None:
                self.barred.add(_words(degree.settings))
            last, missed = (effect, effect.needed - least) if effect else (last, missed)
            if effect and effect.fits:
                break
        return last

    def _least(self, sizes: Sizes, ranks: int, seen: Need | None = None, of: Sizes | None = None) -> int:
        """Bytes at least, as if each rank more divided all activations that were seen with other sizes."""
        seen, of = seen or self.before, of or self.now.sizes
        divided = max(1, sizes.replica * of.micro_batch_size // (of.replica * sizes.micro_batch_size))
        return self.now.least.on(ranks, sizes) + seen.activations // divided

    def _together(self, ranks: int) -> list[Effect]:
        """On these ranks, or twice as many, and so on: the cheapest division that is enough with all that saves."""
        failed: tuple[Need, Sizes] | None = None
        while ranks <= MOST_RANKS:
            for sizes in divisions(self.now, ranks):
                if not self._promises(sizes, ranks, failed):
                    continue
                effect, need = self._strongest(sizes, ranks)
                if effect and effect.fits:
                    return list(self._choices(sizes, ranks))
                failed = (need, sizes) if need else failed
                refused = sum(one is None for one in self.tried.values())
                if max(refused, len(self.tried) - refused) >= _MOST_PLANS:
                    return []
            ranks *= 2
        return []

    def _promises(self, sizes: Sizes, ranks: int, failed: tuple[Need, Sizes] | None) -> bool:
        if any(_words(self.now.settings(self._only(size, sizes))) in self.barred for size in _OF_MODEL):
            return False
        if failed is None:
            return self.now.least.on(ranks, sizes) <= self.capacity
        need, before = failed  # all that are put together have micro batches of one sequence
        least = self._least(evolve(sizes, micro_batch_size=1), ranks, need, evolve(before, micro_batch_size=1))
        return least <= min(self.capacity, _CLOSER * need.bytes)

    def _only(self, size: str, sizes: Sizes) -> Sizes:
        """The sizes of now, but for this one."""
        return evolve(self.now.sizes, **{size: getattr(sizes, size)})

    def _strongest(self, sizes: Sizes, ranks: int) -> tuple[Effect | None, Need | None]:
        """With all that saves; where that is refused, without the savings that are refused alone."""
        found = self._with(sizes, ranks, _STRONGEST)
        if found[1] is None:
            self._bar(sizes, ranks)
            found = self._with(sizes, ranks, _STRONGEST)
        return found

    def _bar(self, sizes: Sizes, ranks: int) -> None:
        """Learn what of a plan that was refused is refused alone, on as many ranks with micro batches of one."""
        alone: list[tuple[Setting, Sizes, tuple[Saving, ...]]]
        alone = [(one.settings, self.now.sizes, (one,)) for one in self._savings(sizes, ranks, _STRONGEST)]
        alone += [(self.now.settings(one), one, ()) for one in (self._only(size, sizes) for size in _OF_MODEL)]
        unknown = [one for one in alone if one[0] and _key(one[0], self.now.ranks) not in self.tried]
        if unknown and not self._runs(self.now.sizes, ranks, ()):
            return
        self.barred.update(
            _words(change) for change, divided, savings in unknown if not self._runs(divided, ranks, savings)
        )

    def _runs(self, sizes: Sizes, ranks: int, savings: tuple[Saving, ...]) -> bool:
        return self._planned(evolve(sizes, micro_batch_size=1), ranks, savings)[1] is not None

    def _choices(self, sizes: Sizes, ranks: int) -> Iterator[Effect]:
        """As little of what costs arithmetic as is enough; where that is much, the same on more ranks without."""
        strength, effect = next(self._enough(sizes, ranks, range(1, _STRONGEST + 1)))
        if strength == 1:
            yield next(self._enough(sizes, ranks, range(2)))[1]
            return
        yield effect
        more, _ = self._with(sizes, 2 * ranks, 1)
        yield from [more] if more and more.fits else []

    def _enough(self, sizes: Sizes, ranks: int, strengths: Iterable[int]) -> Iterator[tuple[int, Effect]]:
        for strength in strengths:
            effect, _ = self._with(sizes, ranks, strength)
            if effect and effect.fits:
                yield strength, effect

    def _with(self, sizes: Sizes, ranks: int, strength: int) -> tuple[Effect | None, Need | None]:
        """Divided so, and with the back end's savings and a smaller micro batch as far as a strength goes."""
        micro = 1 if strength else sizes.micro_batch_size
        return self._planned(evolve(sizes, micro_batch_size=micro), ranks, self._savings(sizes, ranks, strength))

    def _savings(self, sizes: Sizes, ranks: int, strength: int) -> tuple[Saving, ...]:
        """Without those that are refused alone, and, divided as now, those that save nothing alone."""
        told = (one for repeats in _REPEATS[strength] for one in self.now.told(repeats))
        allowed = tuple(one for one in told if _words(one.settings) not in self.barred)
        if ranks > self.now.ranks or any(getattr(sizes, size) != getattr(self.now.sizes, size) for size in DIVIDING):
            return allowed
        alone = ((one, self.tried.get(_key(one.settings, ranks))) for one in allowed)
        return tuple(one for one, found in alone if found is None or found[0].saved > 0)

    def _planned(self, sizes: Sizes, ranks: int, savings: tuple[Saving, ...]) -> tuple[Effect | None, Need | None]:
        """With a batch that divides; where nothing changes, what is needed now."""
        sizes = with_batch(sizes, ranks)
        settings = self.now.settings(sizes)
        costs = [*costs_of(self.now, sizes), *(one.cost for one in savings)]
        costs += ["more ranks"] if ranks > self.now.ranks else []
        for one in savings:
            settings |= one.settings
        if not settings and ranks == self.now.ranks:
            return None, self.before
        effect = self._effect(settings, ranks, "; ".join(dict.fromkeys(costs)))
        found = self.tried[_key(settings, ranks)]
        return effect, found[1] if found else None

    def _effect(self, settings: Setting, ranks: int, cost: str) -> Effect | None:
        key = _key(settings, ranks)
        if key not in self.tried:
            need = self.needs(settings, ranks)
            self.tried[key] = (self._told(settings, ranks, cost, need), need) if need else None
        found = self.tried[key]
        return found[0] if found else None

    def _told(self, settings: Setting, ranks: int, cost: str, need: Need) -> Effect:
        return Effect(
            settings=settings,
            ranks=ranks,
            cost=cost,
            needed=need.bytes,
            saved=self.before.bytes - need.bytes,
            fits=need.bytes <= self.capacity,
        )


def _key(settings: Setting, ranks: int) -> tuple[frozenset[tuple[str, str]], int]:
    return _words(settings), ranks


def _words(settings: Setting) -> frozenset[tuple[str, str]]:
    return frozenset(settings.items())
