"""Sizes that the operators of a model have on one rank, for one micro batch."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from primus_backend_megatron.host.legality.case import Case
from primus_core import operators
from primus_core.operators import FP32, INT64


@frozen(kw_only=True)
class Work(operators.Work):
    """With what of an experiment an operator of Megatron reads."""

    case: Case
    gated: bool
    bias: bool
    dropout: float
    norm: Literal["RMSNorm", "LayerNorm"]

    @classmethod
    def of(cls, case: Case) -> Work:
        """The sizes that a plan asks for."""
        shape, tensor = case.shape, case.size("tensor_model_parallel_size")
        context = case.size("context_parallel_size")
        return cls(
            case=case,
            fused=is_fused(case),
            batch=case.size("micro_batch_size"),
            length=shape.sequence // context,
            context=context,
            tensor=tensor,
            sequence_parallel=case.on("sequence_parallel") and tensor > 1,
            element=2 if case.on("bf16") or case.on("fp16") else FP32,
            hidden=shape.hidden,
            heads=shape.heads // tensor,
            groups=max(1, shape.query_groups // tensor),
            head=shape.head_size,
            ffn=shape.ffn_hidden // tensor,
            vocabulary=shape.vocabulary // tensor,
            gated=shape.gated_mlp,
            bias=case.on("add_bias_linear"),
            dropout=case.number("hidden_dropout"),
            norm="RMSNorm" if case.values["normalization"] == "RMSNorm" else "LayerNorm",
        )

    def gathered(self) -> int:
        """Bytes of all tokens' features, where each rank has only its tokens; 0 where it has all."""
        return self.whole if self.sequence_parallel else 0

    def positions(self) -> int:
        """Bytes of the table of rotary positions, which is made once for all layers."""
        if self.case.values["position_embedding_type"] not in ("rope", "yarn"):
            return 0
        latent = self.case.on("multi_latent_attention")
        width = self.case.size("qk_pos_emb_head_dim", 64) if latent else self.head
        return self.length * self.context * width * FP32

    def batches(self) -> int:
        """Bytes of the micro batches that a CPU's step has read: Megatron keeps them to be able to repeat the step. On
        a GPU they are in the memory of its host."""
        if self.fused or self.case.values["rerun_mode"] == "disabled":
            return 0
        count = self.case.size("global_batch_size", self.case.samples_at_once) // self.case.samples_at_once
        return max(1, count) * self.tokens * self.context * (3 * INT64 + FP32)


def is_fused(case: Case) -> bool:
    """Transformer Engine's layers, or Megatron's own that computes each operation by itself."""
    return case.values["transformer_impl"] == "transformer_engine"
