"""What each kind of layer does on one rank, one operator after the other, as TorchTitan runs it."""

from __future__ import annotations

from primus_backend_torchtitan.host.case import EXPERT, Case
from primus_backend_torchtitan.host.shape.operators_attention import attention
from primus_backend_torchtitan.host.shape.operators_experts import experts_operators
from primus_backend_torchtitan.host.shape.operators_latent import latent_attention
from primus_backend_torchtitan.host.shape.operators_linear import add, gathered
from primus_backend_torchtitan.host.shape.operators_mlp import mlp
from primus_backend_torchtitan.host.shape.operators_norm import norm
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.shape import Operator


def layer_operators(case: Case, experts: bool, *, sends: bool = False) -> tuple[Operator, ...]:
    """Of a layer whose feed-forward part is dense, or a mixture of experts.

    Args:
        sends: the gradient of its output comes from another stage, where it has been summed.
    """
    work = Work.of(case)
    attends = latent_attention(work) if case.model["multi_latent_attention"] else attention(work)
    return (*attends, *(_mixture(work) if experts else mlp(work, sends=sends)))


def _mixture(work: Work) -> list[Operator]:
    apart = work.case.size(EXPERT) > 1
    gathers, source = ([], "normed2") if apart else gathered(work, "normed2", "experts")
    return [
        *norm(work, "ffn_norm", "middle", "normed2"),
        *gathers,
        *experts_operators(work, source, "moe"),
        add(work, "moe.add_residual", "moe", "middle", "output", "experts"),
    ]
