"""Sizes that the operators of a model have on one rank, for one micro batch."""

from __future__ import annotations

from attrs import frozen

from primus_backend_torchtitan.architecture import ffn_hidden_size, size
from primus_backend_torchtitan.host.case import CONTEXT, TENSOR, Case
from primus_backend_torchtitan.host.shape.attention import head_size, query_groups
from primus_backend_torchtitan.host.shape.schedule import micro_batch
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core import operators
from primus_core.shape import DTYPE_BYTES


@frozen(kw_only=True)
class Work(operators.Work):
    """With the experiment, of which some operators of TorchTitan read more."""

    case: Case

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
            sequence_parallel=tensor > 1 and case.values["parallelism.enable_sequence_parallel"] is True,
            element=DTYPE_BYTES[DTYPES[case.values["training.mixed_precision_param"]]],
            hidden=case.shape.hidden,
            heads=size(model, "num_attention_heads") // tensor,
            groups=0 if latent else query_groups(model) // tensor,
            head=0 if latent else head_size(model),
            ffn=ffn_hidden_size(model) // tensor,
            vocabulary=-(-size(model, "padded_vocab_size") // tensor),
        )
