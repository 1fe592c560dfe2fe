"""Which activations of a block outlive its forward pass, and what runs again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from primus_core.projection.memory import Parts, plus
from primus_core.records import frozen
from primus_core.shape import Activation, Block, Operator, Recomputed


@frozen(kw_only=True)
class Part:
    """Operators that run again together, by their positions in the block."""

    first: int
    last: int
    told: Recomputed
    source: frozenset[str]
    """What they read and did not make: kept until their backward has run."""
    made: frozenset[str]
    due: int
    """Position of the operator before whose backward it runs again, unless what it dropped is needed earlier."""

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self.first <= index <= self.last

    @property
    def dropped(self) -> bool:
        """Its output is not kept either."""
        return not self.told.keeps_output

    def inside(self, other: Part) -> bool:
        """All its operators are among those of another."""
        return other.first <= self.first and self.last <= other.last


@frozen(kw_only=True)
class Plan:
    """A block's operators and what is known of their activations beforehand."""

    operators: tuple[Operator, ...]
    parts: tuple[Part, ...]
    """The longest first: one that is inside another comes after it."""
    made: dict[str, Activation]
    """By name, without the input."""
    maker: dict[str, int]
    """Position of the operator that makes it; of the input -1."""
    last_use: dict[str, int]
    keepers: dict[str, frozenset[int]]
    """Operators after whose backward it may go."""
    kept: frozenset[str]
    """From the forward pass to the backward pass."""
    output: Activation | None
    """What the next block reads: the last that the last operator makes."""

    @property
    def needed(self) -> int:
        """Number of operators up to the last that makes what is kept."""
        return max((index + 1 for index, op in enumerate(self.operators) if _makes(op, self.kept)), default=0)

    def part_of(self, index: int) -> Part | None:
        """The outermost part that an operator is in."""
        return next((part for part in self.parts if index in part), None)

    def stays(self, name: str, part: Part) -> bool:
        """What a part made again stays for its backward pass: an operator of it keeps it, and no part inside it makes
        it once more."""
        made = self.maker[name]
        inner = next((one for one in self.parts if one is not part and one.inside(part) and made in one), None)
        keepers = (keeper for keeper in self.keepers.get(name, ()) if keeper in part)
        return any(inner is None or (keeper not in inner and not inner.dropped) for keeper in keepers)


def plan_of(block: Block) -> Plan:
    """Raises ValueError for an activation that is read and never made, and a part that names no operator."""
    operators = block.operators
    told = (_part(operators, one) for one in block.recomputed)
    parts = tuple(sorted(told, key=lambda part: part.first - part.last))
    maker = {"input": -1} | {made.name: index for index, op in enumerate(operators) for made in op.makes}
    _check(operators, maker)
    keepers = _keepers(operators, parts)
    return Plan(
        operators=operators,
        parts=parts,
        made={made.name: made for op in operators for made in op.makes},
        maker=maker,
        last_use=_last_use(operators, parts),
        keepers=keepers,
        kept=frozenset(name for name in maker if _outlives(name, maker[name], keepers, parts)),
        output=operators[-1].makes[-1] if operators and operators[-1].makes else None,
    )


def _part(operators: tuple[Operator, ...], told: Recomputed) -> Part:
    names = [op.name for op in operators]
    first, last = names.index(told.first), names.index(told.last)
    inside = operators[first : last + 1]
    made = frozenset(made.name for op in inside for made in op.makes)
    read = frozenset(name for op in inside for name in (*op.reads, *op.keeps))
    due = names.index(told.before) if told.before else last
    return Part(first=first, last=last, told=told, source=read - made, made=made, due=due)


def _check(operators: tuple[Operator, ...], maker: dict[str, int]) -> None:
    named = ((op, name) for op in operators for name in (*op.reads, *op.keeps, *op.holds, *op.passes))
    wrong = next(((op.name, name) for op, name in named if name not in maker), None)
    if wrong:
        raise ValueError(f"operator {wrong[0]} names the activation {wrong[1]}, which no operator makes")


def _last_use(operators: tuple[Operator, ...], parts: tuple[Part, ...]) -> dict[str, int]:
    used = {name: index for index, op in enumerate(operators) for name in (*op.reads, *op.holds)}
    for part in parts:
        used |= {name: max(used[name], part.due) for name in part.made if used.get(name, -1) > part.last}
    return used


def _keepers(operators: tuple[Operator, ...], parts: tuple[Part, ...]) -> dict[str, frozenset[int]]:
    keepers: dict[str, set[int]] = {}
    for index, op in enumerate(operators):
        for name in op.keeps:
            keepers.setdefault(name, set()).add(index)
    for part in parts:
        for name in part.source:
            keepers.setdefault(name, set()).add(part.first)
    return {name: frozenset(indices) for name, indices in keepers.items()}


def _outlives(name: str, maker: int, keepers: dict[str, frozenset[int]], parts: tuple[Part, ...]) -> bool:
    home = next((part for part in parts if maker in part), None)
    if home is None or name in home.told.saves:
        return bool(keepers.get(name)) or bool(home)
    outside = any(index not in home for index in keepers.get(name, ()))
    return outside and not home.dropped


def gone(block: Block, left: AbstractSet[int]) -> frozenset[int]:
    """The operators of a stage's last block that are none of these and come before none of them: PyTorch lets go of
    what they kept once only gradients of weights of `left` are to be computed."""
    needed, wanted = set(left), set[str]()
    for index, op in reversed(list(enumerate(block.operators))):
        if index in left or _makes(op, wanted):
            needed.add(index)
            wanted |= set(op.reads)
    return frozenset(range(len(block.operators))) - needed


def released(block: Block, had: AbstractSet[int], before: AbstractSet[int] = frozenset()) -> Parts:
    """What these operators alone keep from the forward pass, but for what those `before` alone keep."""
    plan, parts = plan_of(block), Parts()
    for name in plan.kept - {"input"}:
        keepers = plan.keepers.get(name, frozenset({-1}))
        if keepers <= had and not keepers <= before:
            parts = plus(parts, {plan.operators[plan.maker[name]].component: plan.made[name].bytes})
    return parts


def again(plan: Plan, part: Part, needed: bool) -> Iterator[Operator]:
    """The operators of a part that run again: all, or up to the last that makes something its backward keeps."""
    inside = plan.operators[part.first : part.last + 1]
    if not needed:
        yield from inside
        return
    wanted = {name for op in inside for name in op.keeps} - set(part.told.saves)
    last = max((index for index, op in enumerate(inside) if _makes(op, wanted)), default=-1)
    yield from inside[: last + 1]


def _makes(operator: Operator, wanted: AbstractSet[str]) -> bool:
    return any(made.name in wanted for made in operator.makes)
