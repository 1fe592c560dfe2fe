"""Attention on a GPU that is not one kernel: it keeps the whole matrix of weights of every head."""

from __future__ import annotations

from attrs import frozen

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import FP32
from primus_core.shape import Activation, Operator

_COMPONENT = "attention"


def is_unfused(work: Work) -> bool:
    """Transformer Engine's where it may use neither of its kernels, and that of Megatron's own layers on a GPU."""
    return work.case.on_gpus and (work.case.values["attention_backend"] == "unfused" or not work.fused)


def has_fused_softmax(work: Work) -> bool:
    """Whether Megatron's own attention on a GPU masks, scales and takes the softmax in one kernel
    (`FusedScaleMaskSoftmax.is_kernel_available`, with the rows that a block of that kernel works on)."""
    rows, length = work.batch * work.heads, work.length
    block = 8 if length <= 128 else 4
    fits = 16 < length <= 4096 and length % 4 == 0 and rows % block == 0
    return work.case.on("masked_softmax_fusion") and work.element < FP32 and fits


def modules(case: Case) -> tuple[str, ...]:
    """The parts of each layer that selective recomputation runs again."""
    asked = case.values["recompute_modules"]
    return tuple(map(str, asked)) if isinstance(asked, list) else ("core_attn",)


@frozen(kw_only=True)
class Unfused:
    """What it reads, and the sizes of it on one rank.

    Attributes:
        query: names of the activations.
        groups: heads of keys and values; each is copied for the heads that share it.
        head: features of a query and of a key.
        wide: features of a value.
        stored: activations that the values are a part of.
        holds: what the layer's code refers to until all is done.
    """

    work: Work
    query: str
    key: str
    value: str
    groups: int
    head: int
    wide: int
    stored: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def matrix(self) -> int:
        """Bytes of the scores of all pairs of tokens."""
        work = self.work
        return work.batch * work.heads * work.length * work.length * work.element

    @property
    def flops(self) -> int:
        """Of the two products, by all tensor parallel ranks, for one feature."""
        work = self.work
        return 2 * work.batch * work.heads * work.tensor * work.length * work.length

    def operators(self) -> list[Operator]:
        """From queries, keys and values to ``context``."""
        copies = self.groups != self.work.heads
        key, value = ("key.copies", "value.copies") if copies else (self.key, self.value)
        weights = "weights.dropped" if self.work.case.on("attention_dropout") else "weights"
        return [
            *([self._copies()] if copies else ()),
            self._scores(key, () if copies else self.stored),
            self._softmax(),
            *([self._dropout()] if weights != "weights" else ()),
            *self._context(weights, value, () if copies else self.stored),
        ]

    def _copies(self) -> Operator:
        """Of keys and values, for every head that reads them. Where attention runs again it keeps what it is given."""
        case = self.work.case
        again = case.values["recompute_granularity"] == "selective" and "core_attn" in modules(case)
        sizes = {"key": self.head, "value": self.wide}
        makes = (Activation(name=f"{name}.copies", bytes=self._size(features)) for name, features in sizes.items())
        kept = self.stored if again else ()
        return self._step("core_attention.repeat", (self.key, self.value), tuple(makes), keeps=kept)

    def _size(self, features: int) -> int:
        return self.work.wide(self.work.heads * features)

    def _scores(self, key: str, stored: tuple[str, ...]) -> Operator:
        made = Activation(name="scores", bytes=self.matrix)
        return self._step(
            "core_attention",
            (self.query, key),
            (made,),
            keeps=(self.query, key, *stored),
            scratch=self.matrix,
            flops=self.flops * self.head,
        )

    def _softmax(self) -> Operator:
        """In one kernel with its mask; backward it works in the place of the gradient."""
        made = Activation(name="weights", bytes=self.matrix)
        return self._step("core_attention.softmax", ("scores",), (made,), keeps=("weights",), passes=("scores",))

    def _dropout(self) -> Operator:
        """Keeps one byte for each weight."""
        mask = Activation(name="weights.mask", bytes=self.matrix // self.work.element, gradient=0)
        made = Activation(name="weights.dropped", bytes=self.matrix)
        holds = ("scores",)
        return self._step("core_attention.dropout", ("weights",), (mask, made), keeps=(mask.name,), holds=holds)

    def _context(self, weights: str, value: str, stored: tuple[str, ...]) -> list[Operator]:
        size = self._size(self.wide)
        made = Activation(name="context.strided", bytes=size)
        holds = ("scores", weights)
        return [
            self._step(
                "core_attention.values",
                (weights, value),
                (made,),
                keeps=(weights, value, *stored),
                holds=holds,
                flops=self.flops * self.wide,
            ),
            self._step(
                "core_attention.copy",
                (made.name,),
                (Activation(name="context", bytes=size),),
                passes=(made.name,),
                holds=holds,
            ),
        ]

    def _step(
        self,
        name: str,
        reads: tuple[str, ...],
        makes: tuple[Activation, ...],
        *,
        keeps: tuple[str, ...] = (),
        passes: tuple[str, ...] = (),
        holds: tuple[str, ...] = (),
        scratch: int = 0,
        flops: int = 0,
    ) -> Operator:
        return Operator(
            name=name,
            component=_COMPONENT,
            reads=reads,
            makes=makes,
            keeps=keeps,
            passes=passes,
            holds=(*self.holds, *holds),
            scratch=scratch,
            flops=flops,
            causal=flops > 0,
        )
