"""Mixtures of experts: routing, the experts themselves, and how their load is balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import spmd_types as spmd
import torch
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torchtitan.models.common.config_utils import make_moe_config, make_routed_experts_config
from torchtitan.models.common.moe import GroupedExperts, MoE, TokenChoiceTopKRouter

from primus_backend_torchtitan.architecture import balancing_losses, ffn_hidden_size, number, size
from primus_backend_torchtitan.rank.metrics import tokens_per_step
from primus_backend_torchtitan.rank.models.parts import Init, Model, feed_forward, linear, normal, residual
from primus_backend_torchtitan.rank.session import current


def experts(model: Model) -> MoE.Config:
    """The experts of one layer, with their router and those that every token uses."""
    count, shared = size(model, "num_experts"), size(model, "moe_shared_expert_intermediate_size", 0)
    hidden, inner = size(model, "hidden_size"), size(model, "moe_ffn_hidden_size", ffn_hidden_size(model))
    first, last = normal(model)["weight"], residual(model)["weight"]
    init: Init = {"w1_EFD": first, "w2_EDF": last, "w3_EFD": first}
    routed = make_routed_experts_config(
        dim=hidden,
        hidden_dim=inner,
        num_experts=count,
        top_k=size(model, "moe_router_topk", 2),
        param_init=init,
        comm_backend=model["expert_dispatcher"],
    )
    routed.inner_experts = Experts.Config(dim=hidden, hidden_dim=inner, num_experts=count, param_init=init)
    rate = number(model, "moe_router_bias_update_rate", 1e-3) if model["moe_router_enable_expert_bias"] else 0.0
    config: MoE.Config = make_moe_config(
        num_experts=count,
        router=_router(model),
        routed_experts=routed,
        shared_experts=feed_forward(model, shared) if shared else None,
        load_balance_coeff=rate or None,
    )
    return config


def _router(model: Model) -> Router.Config:
    hidden, count, chosen = size(model, "hidden_size"), size(model, "num_experts"), size(model, "moe_router_topk", 2)
    losses, sigmoid = balancing_losses(model), model["moe_router_score_function"] == "sigmoid"
    return Router.Config(
        num_experts=count,
        gate=linear(model, hidden, count),
        top_k=chosen,
        score_func="sigmoid" if sigmoid else "softmax",
        route_norm=chosen > 1 if sigmoid else not model["moe_router_pre_softmax"],
        route_scale=number(model, "moe_router_topk_scaling_factor", 1.0),
        num_expert_groups=model["moe_router_num_groups"],
        num_limited_groups=model["moe_router_group_topk"],
        batch_loss=losses.get("aux_loss", 0.0),
        sequence_loss=losses.get("seq_aux_loss", 0.0),
    )


class Experts(GroupedExperts):
    """TorchTitan's experts, which compute in bfloat16 whatever was asked for; these compute in their input's format."""

    @dataclass(kw_only=True, slots=True)
    class Config(GroupedExperts.Config):
        pass

    def forward(self, x_RD: torch.Tensor, num_tokens_per_expert_E: torch.Tensor) -> torch.Tensor:
        if x_RD.dtype != torch.float32:
            inherited: torch.Tensor = super().forward(x_RD, num_tokens_per_expert_E)
            return inherited
        w1, w2, w3 = (_transposed(weight) for weight in (self.w1_EFD, self.w2_EDF, self.w3_EFD))
        with spmd.no_typecheck():
            ends = torch.cumsum(num_tokens_per_expert_E, dim=0, dtype=torch.int32)
            gate = functional.silu(self._grouped_mm(A=x_RD, B_t=w1, offs=ends))
            inner = gate * self._grouped_mm(A=x_RD, B_t=w3, offs=ends)
            out: torch.Tensor = self._grouped_mm(A=inner, B_t=w2, offs=ends)
        return out


def _transposed(weight: Any) -> torch.Tensor:
    local: torch.Tensor = weight.to_local() if isinstance(weight, DTensor) else weight
    return local.transpose(-2, -1)


class Router(TokenChoiceTopKRouter):
    """TorchTitan's router with the losses that balance the experts' load, which TorchTitan has not.

    A loss is not part of what is reported: it adds its gradient to that of the scores, as Megatron's does.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(TokenChoiceTopKRouter.Config):
        batch_loss: float = 0.0
        """Weight of the loss over all tokens of a micro batch."""
        sequence_loss: float = 0.0
        """Weight of the loss over the tokens of each sequence."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.batch_loss, self.sequence_loss = config.batch_loss, config.sequence_loss

    def forward(
        self,
        x_BLD: torch.Tensor,
        expert_bias_E: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chosen, ids, scores = super().forward(x_BLD, expert_bias_E)
        if self.training and torch.is_grad_enabled() and (self.batch_loss or self.sequence_loss):
            with spmd.no_typecheck():
                chosen = _Attached.apply(chosen, self._loss(scores))
        return chosen, ids, scores

    def _loss(self, scores: torch.Tensor) -> torch.Tensor:
        """Of a micro batch, as a part of the mean over all tokens of a step."""
        if self.score_func == "sigmoid":
            scores = scores / (scores.sum(dim=-1, keepdim=True) + 1e-20)
        choice = torch.zeros_like(scores).scatter(-1, scores.topk(self.top_k, dim=-1).indices, 1.0)
        share = scores.shape[0] * scores.shape[1] / tokens_per_step(current())
        return share * (
            self.batch_loss * self._imbalance(scores.flatten(0, 1)[None], choice.flatten(0, 1)[None])
            + self.sequence_loss * self._imbalance(scores, choice)
        )

    def _imbalance(self, scores: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
        """Mean over groups of tokens of experts x sum over experts of share of choices x mean score; 1 is balance."""
        groups, tokens, count = scores.shape
        together = (scores.sum(1) * choice.sum(1)).sum()
        return together * (count / (groups * self.top_k * tokens**2))


class _Attached(torch.autograd.Function):
    """The scores as they are; backwards, the loss gets a gradient of 1."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(loss)
        return scores.view_as(scores)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (loss,) = ctx.saved_tensors
        return gradient, torch.ones_like(loss)
