"""What each kind of layer does on one rank, one operator after the other, as TorchTitan runs it."""

from __future__ import annotations

from primus_backend_torchtitan.host.case import EXPERT, Case
from primus_backend_torchtitan.host.shape.operators_attention import attention
from primus_backend_torchtitan.host.shape.operators_experts import experts_operators
from primus_backend_torchtitan.host.shape.operators_latent import latent_attention
from primus_backend_torchtitan.host.shape.operators_linear import add, gathered, summed
from primus_backend_torchtitan.host.shape.operators_mlp import mlp
from primus_backend_torchtitan.host.shape.operators_norm import norm
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.shape import Operator


def layer_operators(case: Case, experts: bool) -> tuple[Operator, ...]:
    """Of a layer whose feed-forward part is dense, or a mixture of experts."""
    work = Work.of(case)
    attends = latent_attention(work) if case.model["multi_latent_attention"] else attention(work)
    return (*attends, *(_mixture(work) if experts else mlp(work)))


def _mixture(work: Work) -> list[Operator]:
    apart = work.case.size(EXPERT) > 1
    gathers, source = ([], "normed2") if apart else gathered(work, "normed2", "experts")
    made = "moe.part" if work.tensor > 1 and not apart else "moe"
    sums = [] if apart else summed(work, made, "moe", "experts")
    return [
        *norm(work, "ffn_norm", "middle", "normed2"),
        *gathers,
        *experts_operators(work, source, made),
        *sums,
        add(work, "moe.add_residual", "moe", "middle", "output", "experts"),
    ]
