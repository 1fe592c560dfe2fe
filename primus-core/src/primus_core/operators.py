"""What operators of different back ends have in common: sizes on one rank, norms, widths of latent attention."""

from __future__ import annotations

from attrs import frozen

from primus_core.shape import Activation, Operator

FP32, INT64, COMPLEX = 4, 8, 8


@frozen(kw_only=True)
class Work:
    """Tokens and features of one rank, for one micro batch.

    Attributes:
        fused: whole kernels of a GPU, or one operation after the other.
        batch: samples of a micro batch.
        length: tokens of a sample that this rank has, with context parallelism its share.
        context: ranks that divide the tokens of a sample.
        tensor: ranks that divide the features; with `sequence_parallel` they divide the tokens between them.
        element: bytes of a number that the model computes with.
        heads, groups, ffn, vocabulary: the share of one tensor parallel rank.
        head: features of a head.
    """

    fused: bool
    batch: int
    length: int
    context: int
    tensor: int
    sequence_parallel: bool
    element: int
    hidden: int
    heads: int
    groups: int
    head: int
    ffn: int
    vocabulary: int

    @property
    def tokens(self) -> int:
        """That a rank computes on where features are divided."""
        return self.batch * self.length

    @property
    def own_tokens(self) -> int:
        """That a rank has between the divided parts: the residual stream and the norms."""
        return self.tokens // self.tensor if self.sequence_parallel else self.tokens

    def stream(self, element: int | None = None) -> int:
        """Bytes of the residual stream."""
        return self.own_tokens * self.hidden * (element or self.element)

    @property
    def whole(self) -> int:
        """Bytes of the residual stream of all tokens of tensor parallel ranks."""
        return self.wide(self.hidden)

    def wide(self, features: int) -> int:
        """Bytes of so many features of all tokens."""
        return self.tokens * features * self.element

    def logits(self, element: int | None = None) -> int:
        """Bytes of this rank's share of the logits of all tokens."""
        return self.tokens * self.vocabulary * (element or self.element)


@frozen(kw_only=True)
class Latent:
    """Features of multi-latent attention on one rank.

    Attributes:
        down: of the narrow tensor that queries are made of; 0: they are made of the whole stream.
        rank: of the narrow tensor that keys and values are made of.
        plain, rotated: of a head, without and with rotary positions.
        value: of a head's values.
    """

    heads: int
    down: int
    rank: int
    plain: int
    rotated: int
    value: int

    @property
    def head(self) -> int:
        """Features of a query or key."""
        return self.plain + self.rotated


@frozen(kw_only=True)
class Norm:
    """Makes an activation of another one's rows, each normalized by itself.

    Attributes:
        width: features of a row.
        stored: activations that hold the source, where it is a part of them.
    """

    name: str
    source: str
    made: str
    rows: int
    width: int
    weights: tuple[str, ...]
    stored: tuple[str, ...] = ()

    def whole(self, element: int, moments: int = 1) -> Operator:
        """One kernel, which keeps its input and so many numbers in fp32 for each row."""
        kept = Activation(name=f"{self.made}.moments", bytes=self.rows * FP32 * moments, gradient=0)
        return Operator(
            name=self.name,
            component="norm",
            reads=(self.source,),
            makes=(kept, Activation(name=self.made, bytes=self.rows * self.width * element)),
            keeps=(self.source, kept.name, *self.stored),
            weights=self.weights,
        )

    def by_operations(self, element: int) -> list[Operator]:
        """PyTorch's own root mean square norm: it keeps its input and the normalized input, both in fp32."""
        if element == FP32:
            return [self._normalize(self.source, self.stored), self._weigh(element)]
        exact = Activation(name=f"{self.made}.fp32", bytes=self._full)
        cast = Operator(name=f"{self.name}.cast", component="norm", reads=(self.source,), makes=(exact,))
        return [cast, self._normalize(exact.name, ()), self._weigh(element)]

    @property
    def _full(self) -> int:
        return self.rows * self.width * FP32

    def _normalize(self, exact: str, stored: tuple[str, ...]) -> Operator:
        """Backward, the gradient is put together from two parts, one through the mean of squares, whose own steps hold
        three tensors more."""
        scale = Activation(name=f"{self.made}.scale", bytes=self.rows * FP32, gradient=0)
        return Operator(
            name=f"{self.name}.normalize",
            component="norm",
            reads=(exact,),
            makes=(scale, Activation(name=f"{self.made}.normalized", bytes=self._full)),
            keeps=(exact, scale.name, *stored),
            scratch=self._full,
            backward_scratch=3 * self._full,
        )

    def _weigh(self, element: int) -> Operator:
        """Backward, the gradient of the weight is summed from a tensor of the full size."""
        size = self.rows * self.width * element
        return Operator(
            name=self.name,
            component="norm",
            reads=(f"{self.made}.normalized",),
            makes=(Activation(name=self.made, bytes=size),),
            keeps=(f"{self.made}.normalized",),
            scratch=self._full if element != FP32 else 0,
            backward_scratch=2 * self._full - size,
            weights=self.weights,
            waits=self._full if element != FP32 else None,
        )
