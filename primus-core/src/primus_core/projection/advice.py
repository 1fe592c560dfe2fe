"""The cheapest changes of an experiment that make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import field, frozen

_ENOUGH = 3
"""Changes that each make it fit, after which no other is tried."""
Setting = Mapping[str, str]
"""Parameters by name, as a command line says them."""
Needs = Callable[[Setting], int | None]
"""Bytes on the heaviest rank under these settings, margin included; None: the back end refuses them."""


@frozen(kw_only=True)
class Now:
    """What the experiment says of the sizes that can be changed."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    experts: int = 0
    micro_batch_size: int = 1


@frozen(kw_only=True)
class Change:
    """One thing to do, in every spelling: back ends refuse what they do not know."""

    spellings: tuple[Setting, ...]
    cost: str
    """What it costs beside memory, in a few words."""


@frozen(kw_only=True)
class Effect:
    """What a change, or several together, would do."""

    settings: Setting
    cost: str
    needed: int
    """Bytes on the heaviest rank afterwards, margin included."""
    saved: int
    """Bytes less than now."""
    fits: bool
    parts: int = field(default=1)
    """How many changes it is made of."""


def changes(now: Now) -> tuple[Change, ...]:
    """All that is tried, the cheapest first: by arithmetic that is repeated, then by what is sent between ranks."""
    return tuple(_changes(now))


def _changes(now: Now) -> Iterator[Change]:
    yield Change(
        spellings=({"use_distributed_optimizer": "true"},), cost="no more work: the optimizer is divided among replicas"
    )
    if now.tensor > 1:
        yield Change(spellings=({"sequence_parallel": "true"},), cost="no more work: norms are divided among ranks")
    sizes = (now.micro_batch_size >> power for power in range(1, now.micro_batch_size.bit_length()))
    for size in sizes:
        yield Change(spellings=({"micro_batch_size": str(size)},), cost="smaller products of matrices")
    yield Change(
        spellings=(
            {"recompute_granularity": "selective"},
            {"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "op"},
        ),
        cost="attention or every other product runs again",
    )
    yield from _divided("expert_model_parallel_size", now.expert, "experts are sent tokens", now.experts)
    yield from _divided("tensor_model_parallel_size", now.tensor, "more exchange within each layer", 8)
    yield from _divided("context_parallel_size", now.context, "more exchange within attention", 8)
    yield from _divided("pipeline_model_parallel_size", now.pipeline, "pipeline stages wait for each other", 16)
    yield Change(
        spellings=(
            {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": "1"},
            {"activation_checkpoint.mode": "full"},
        ),
        cost="every layer runs forward twice: a third more arithmetic",
    )


def _divided(name: str, now: int, cost: str, most: int) -> Iterator[Change]:
    size = 2 * now
    while size <= most:
        yield Change(spellings=({name: str(size)},), cost=cost)
        size *= 2


def advise(now: Now, before: int, capacity: int, needs: Needs) -> tuple[Effect, ...]:
    """Changes that save memory, each alone; where none is enough, the cheapest first that are so together.

    Args:
        before: bytes on the heaviest rank now.
        capacity: bytes of the device.
        needs: re-plans the experiment.
    """
    alone = list(_alone(now, before, capacity, needs))
    if any(effect.fits for effect in alone) or not alone:
        return tuple(alone)
    return (*alone, *_together(alone, before, capacity, needs))


def _alone(now: Now, before: int, capacity: int, needs: Needs) -> Iterator[Effect]:
    """Until a few are enough: the others cost more."""
    enough = 0
    for change in changes(now):
        effect = _tried(change, before, capacity, needs)
        if effect is not None:
            yield effect
            enough += effect.fits
        if enough == _ENOUGH:
            return


def _tried(change: Change, before: int, capacity: int, needs: Needs) -> Effect | None:
    for settings in change.spellings:
        needed = needs(settings)
        if needed is not None:
            effect = _effect(settings, change.cost, needed, before, capacity)
            return effect if effect.saved > 0 else None
    return None


def _together(alone: Sequence[Effect], before: int, capacity: int, needs: Needs) -> Iterator[Effect]:
    """The changes in their order, until they are enough; one that is refused beside the others is left out."""
    best = before
    settings: Setting = {}
    taken: list[Effect] = []
    for effect in alone:
        both = {**settings, **effect.settings}
        needed = needs(both)
        if needed is None or needed >= best:
            continue
        best, settings = needed, both
        taken = [one for one in taken if not one.settings.keys() & effect.settings.keys()] + [effect]
        if needed <= capacity:
            break
    if len(taken) > 1:
        cost = "; ".join(dict.fromkeys(one.cost for one in taken))
        yield _effect(settings, cost, best, before, capacity, len(taken))


def _effect(settings: Setting, cost: str, needed: int, before: int, capacity: int, parts: int = 1) -> Effect:
    return Effect(
        settings=settings, cost=cost, needed=needed, saved=before - needed, fits=needed <= capacity, parts=parts
    )
