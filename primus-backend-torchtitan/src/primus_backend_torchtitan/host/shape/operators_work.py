"""Sizes that the operators of a model have on one rank, for one micro batch."""

from __future__ import annotations

from attrs import frozen

from primus_backend_torchtitan.architecture import ffn_hidden_size, size
from primus_backend_torchtitan.host.case import CONTEXT, TENSOR, Case
from primus_backend_torchtitan.host.shape.attention import head_size, query_groups
from primus_backend_torchtitan.host.shape.schedule import micro_batch
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.shape import DTYPE_BYTES

FP32, INT64, COMPLEX = 4, 8, 8


@frozen(kw_only=True)
class Work:
    """Tokens and features of one rank.

    Attributes:
        batch: samples of a micro batch.
        length: tokens of a sample that this rank has, with context parallelism its share.
        tensor: ranks that divide the features; with `divides_tokens` they divide the tokens between them.
        element: bytes of a number that the model computes with.
        heads, groups, ffn, vocabulary: the share of one tensor parallel rank.
    """

    case: Case
    fused: bool
    batch: int
    length: int
    context: int
    tensor: int
    divides_tokens: bool
    element: int
    hidden: int
    heads: int
    groups: int
    head: int
    ffn: int
    vocabulary: int

    @classmethod
    def of(cls, case: Case) -> Work:
        """The sizes that a plan asks for."""
        tensor, context, model = case.size(TENSOR), case.size(CONTEXT), case.model
        latent = bool(model["multi_latent_attention"])
        return cls(
            case=case,
            fused=case.accelerator != "cpu",
            batch=micro_batch(case),
            length=case.shape.sequence // context,
            context=context,
            tensor=tensor,
            divides_tokens=tensor > 1 and case.values["parallelism.enable_sequence_parallel"] is True,
            element=DTYPE_BYTES[DTYPES[case.values["training.mixed_precision_param"]]],
            hidden=case.shape.hidden,
            heads=size(model, "num_attention_heads") // tensor,
            groups=0 if latent else query_groups(model) // tensor,
            head=0 if latent else head_size(model),
            ffn=ffn_hidden_size(model) // tensor,
            vocabulary=-(-size(model, "padded_vocab_size") // tensor),
        )

    @property
    def tokens(self) -> int:
        """That a rank computes on where features are divided."""
        return self.batch * self.length

    @property
    def own_tokens(self) -> int:
        """That a rank has between the divided parts: the residual stream and the norms."""
        return self.tokens // self.tensor if self.divides_tokens else self.tokens

    def stream(self, element: int | None = None) -> int:
        """Bytes of the residual stream."""
        return self.own_tokens * self.hidden * (element or self.element)

    @property
    def whole(self) -> int:
        """Bytes of the residual stream of all tokens of tensor parallel ranks."""
        return self.tokens * self.hidden * self.element

    def wide(self, features: int) -> int:
        """Bytes of so many features of all tokens."""
        return self.tokens * features * self.element
