"""One block's forward and backward pass, with the bytes that live at each moment.

What autograd does is followed as `primus_core.shape.Operator` tells it. A gradient that arrives for an activation that
has one already is allocated, added to the first and freed; where the first is shared with that of another activation,
the sum is allocated too (``InputBuffer::accumulate`` of PyTorch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from primus_core.projection.keeping import Part, Plan, again, plan_of
from primus_core.projection.memory import GATHERED, GRADIENTS, INPUT, WEIGHT_GRADIENTS, Memory
from primus_core.projection.setting import Pass, Setting
from primus_core.shape import Block, Operator

_plan = lru_cache(maxsize=256)(plan_of)
_LENT, _HELD = " lent", " held"


def output_of(block: Block) -> tuple[int, int]:
    """Bytes of what a block makes for the next one, and of its gradient; a block without operators passes nothing."""
    made = _plan(block).output
    return (made.bytes, made.bytes if made.gradient is None else made.gradient) if made else (0, 0)


@lru_cache(maxsize=4096)
def forward(block: Block, name: str, setting: Setting, keep: bool = True, partly: bool = False) -> Pass:
    """Runs a block forward; without `keep` nothing but the output stays; `partly` up to the last that makes what is
    kept."""
    plan, memory = _plan(block), Memory()
    memory.add("input", INPUT, setting.source)
    memory.add(_LENT, GATHERED, setting.lent)
    memory.mark(f"{name}, forward")
    kept = plan.kept if keep else frozenset()
    for index, op in enumerate(plan.operators[: plan.needed] if partly else plan.operators):
        if op.component == "loss":
            memory.drop(_LENT)
        _run(memory, op, f"{name}: {op.name}, forward")
        _free(memory, plan, index, kept)
    memory.drop(_LENT)
    output = plan.output
    owned = output is not None and output.name in kept
    if output is not None and not owned:
        memory.drop(output.name)
    size = output.bytes if output else 0
    return Pass(most=memory.most, left=memory.parts(), output=size, owns_output=owned)


def _run(memory: Memory, op: Operator, at: str) -> None:
    for made in op.makes:
        memory.add(made.name, op.component, made.bytes)
    memory.add(" scratch", op.component, op.scratch)
    memory.mark(at)
    memory.drop(" scratch")


def _free(memory: Memory, plan: Plan, index: int, kept: frozenset[str]) -> None:
    output = plan.output.name if plan.output else None
    for name in memory.names():
        unused = name in plan.maker and plan.last_use.get(name, -1) <= index and name not in kept
        if unused and name != output:
            memory.drop(name)


@lru_cache(maxsize=4096)
def backward(block: Block, name: str, setting: Setting, gradient: int) -> Pass:
    """Runs a block backward, from all that it kept and the gradient of its output, of so many bytes."""
    return _Backward(_plan(block), name, setting, gradient).run()


def rerun(block: Block, name: str, setting: Setting) -> Pass:
    """Runs its recomputed parts again and nothing else; what they made and their backward pass needs is left."""
    ran = _Backward(_plan(block), name, setting, 0)
    for storage in ran.memory.names():
        ran.memory.drop(storage)
    for part in ran.plan.parts:
        ran._again(part)
    return Pass(most=ran.memory.most, left=ran.memory.parts())


class _Backward:
    def __init__(self, plan: Plan, name: str, setting: Setting, gradient: int) -> None:
        self.plan, self.name, self.setting = plan, name, setting
        self.memory = Memory()
        self.gradients: dict[str, str] = {}
        """By activation the storage of its gradient."""
        self.weights = dict(setting.weights)
        self.restored: set[int] = set()
        for kept in sorted(plan.kept):
            size = setting.source if kept == "input" else plan.made[kept].bytes
            self.memory.add(kept, self._component(kept), size)
        if plan.output is not None and gradient:
            own = 0 if setting.buffered else gradient
            self._gradient(plan.output.name, f"gradient of {plan.output.name}", own)
            if setting.holds_gradient or setting.buffered:
                self.gradients[_HELD] = self.gradients[plan.output.name]

    def run(self) -> Pass:
        self.memory.mark(f"{self.name}, backward")
        for index in reversed(range(len(self.plan.operators))):
            if self.plan.operators[index].component != "loss" and _LENT not in self.memory:
                self._gather()
            self._restore(index)
            self._step(index, self.plan.operators[index])
        self.memory.drop(_LENT)
        source = self.gradients.pop("input", None)
        if source:
            self.memory.drop(source)
        left = self.memory.parts()
        return Pass(most=self.memory.most, left=left, output=self.setting.gradient if source else 0)

    def _gather(self) -> None:
        self.memory.add(_LENT, GATHERED, self.setting.lent)
        self.memory.add(" sent", GATHERED, self.setting.sent)
        self.memory.mark(f"{self.name}: weights are gathered")
        self.memory.drop(" sent")

    def _component(self, name: str) -> str:
        return INPUT if name == "input" else self.plan.operators[self.plan.maker[name]].component

    def _gradient(self, name: str, storage: str, size: int) -> None:
        self.memory.add(storage, GRADIENTS, size)
        self.gradients[name] = storage

    def _size(self, name: str) -> int:
        if name == "input":
            return self.setting.gradient
        made = self.plan.made[name]
        return made.bytes if made.gradient is None else made.gradient

    def _restore(self, index: int) -> None:
        for position, part in enumerate(self.plan.parts):
            if position not in self.restored and self._due(part, index):
                self.restored.add(position)
                self._again(part)

    def _due(self, part: Part, index: int) -> bool:
        """When it is said to be, or at an operator that needs its dropped output."""
        kept = self.plan.operators[index].keeps
        return index == part.due or (part.dropped and index > part.last and not part.made.isdisjoint(kept))

    def _again(self, part: Part) -> None:
        operators = list(again(self.plan, part, needed=not self.setting.whole and not part.dropped))
        for offset, op in enumerate(operators):
            self._run_again(part, op)
            self._free_again(part, part.first + offset)

    def _run_again(self, part: Part, op: Operator) -> None:
        """What is there already, such as an output that others keep, is made a second time."""
        for made in op.makes:
            if made.name not in part.told.saves:
                second = self._second(made.name)
                self.memory.add(second, op.component, made.bytes)
        self.memory.add(" scratch", op.component, op.scratch)
        self.memory.mark(f"{self.name}: {op.name}, again")
        self.memory.drop(" scratch")

    def _second(self, name: str) -> str:
        return f"{name} again" if name in self.plan.kept else name

    def _free_again(self, part: Part, index: int) -> None:
        for name in part.made:
            needed = self.plan.stays(name, part) or (part.dropped and bool(self.plan.keepers.get(name)))
            later = self.plan.last_use.get(name, -1)
            read_later = index < later and later in part
            given = self.plan.maker[name] == part.last or (part.dropped and later > part.last)
            held = self.setting.holds_output and given
            if not (needed or read_later or held) and self.plan.maker[name] <= index:
                self.memory.drop(name if name in part.told.saves else self._second(name))

    def _step(self, index: int, op: Operator) -> None:
        arrived = [made.name for made in op.makes if made.name in self.gradients]
        fresh = self._make_gradients(index, op, arrived)
        for weight in op.weights:
            self.memory.add(f"weight {weight} {index}", WEIGHT_GRADIENTS, self._weight(weight))
        self.memory.add(" scratch", op.component, op.backward_scratch)
        self.memory.mark(f"{self.name}: {op.name}, backward")
        self.memory.drop(" scratch")
        self._free_after(index, op, arrived)
        for name, storage in fresh:
            self._accumulate(name, storage, f"{self.name}: {op.name}, backward")
        self._let_go(index)

    def _weight(self, name: str) -> int:
        if self.setting.keeps_all:
            return 0
        return self.weights[name]

    def _make_gradients(self, index: int, op: Operator, arrived: list[str]) -> list[tuple[str, str]]:
        """By activation read, the storage of the gradient that this operator makes of it."""
        fresh: list[tuple[str, str]] = []
        for name in dict.fromkeys(op.reads):
            if not self._size(name) or (name in op.passes and not arrived):
                continue
            if name in op.passes:
                fresh.append((name, self.gradients[arrived[-1]]))
                continue
            storage = f"gradient of {name} by {index}"
            self.memory.add(storage, GRADIENTS, self._size(name))
            fresh.append((name, storage))
        return fresh

    def _free_after(self, index: int, op: Operator, arrived: list[str]) -> None:
        passed = bool(op.passes)
        for name in arrived:
            storage = self.gradients.pop(name)
            if self.setting.keeps_all and op.weights and op.waits is None:
                self.gradients[f"{_HELD} {name} {index}"] = storage
            elif self._is_held(index, name):
                self.gradients[f"{_HELD} {name}"] = storage
            elif not passed and not self._shared(storage):
                self.memory.drop(storage)
        if self.setting.keeps_all and op.waits:
            self.memory.add(f"{_HELD} by {index}", GRADIENTS, op.waits)
        if not self.setting.holds_weights:
            for weight in op.weights:
                self.memory.drop(f"weight {weight} {index}")
        self._free_kept(index)

    def _is_held(self, index: int, name: str) -> bool:
        """The gradient of what a recomputed part gives to others stays until the part has run backward, as its output
        does."""
        parts = (part for part in self.plan.parts if index in part)
        return self.setting.holds_output and any(self.plan.last_use.get(name, -1) > part.last for part in parts)

    def _let_go(self, index: int) -> None:
        """Of the gradients that a part held, where it has run backward."""
        for name in self._ended(index):
            storage = self.gradients.pop(f"{_HELD} {name}", None)
            if storage is not None:
                self._release(storage)

    def _free_kept(self, index: int) -> None:
        for name, keepers in self.plan.keepers.items():
            home = self.plan.part_of(self.plan.maker[name])
            if min(keepers) == index and not (home and home.dropped and index > home.last):
                if not (self.setting.keeps_all and name in self.plan.kept):
                    self.memory.drop(name)
                self.memory.drop(f"{name} again")
        for name in self._ended(index):
            self.memory.drop(self._second(name))

    def _ended(self, index: int) -> Iterator[str]:
        """What the parts made that have run backward."""
        return (name for part in self.plan.parts if part.first == index for name in part.made)

    def _shared(self, storage: str) -> bool:
        return storage in self.gradients.values()

    def _accumulate(self, name: str, storage: str, at: str) -> None:
        before = self.gradients.get(name)
        if before is None or before == storage:
            self.gradients[name] = storage
            return
        del self.gradients[name]
        if not self._shared(before):
            self.gradients[name] = before
            self._release(storage)
            return
        total = f"{storage} and before"
        self._gradient(name, total, self._size(name))
        self.memory.mark(at)
        self._release(storage)

    def _release(self, storage: str) -> None:
        if not self._shared(storage):
            self.memory.drop(storage)
