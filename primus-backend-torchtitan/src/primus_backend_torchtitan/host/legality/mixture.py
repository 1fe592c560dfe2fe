"""What TorchTitan cannot do with experts and with latent attention, where the values of several parameters decide."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.architecture import balancing_losses, layers_with_experts, number, size
from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, TENSOR, Case
from primus_core.outcome import Finding
from primus_core.parameters.layerpattern import REMEDY

_LOSSES = ("aux_loss", "seq_aux_loss")
_TYPE, _WEIGHT = "model.moe_router_load_balancing_type", "model.moe_aux_loss_coeff"
_GROUPS, _CHOSEN_GROUPS, _CHOSEN = (f"model.moe_router_{name}" for name in ("num_groups", "group_topk", "topk"))


def check_latent(case: Case) -> Iterator[Finding]:
    """YaRN's two factors are one to TorchTitan, which has none without YaRN."""
    model = case.model
    if not model["multi_latent_attention"] or number(model, "rotary_scaling_factor", 1.0) <= 1:
        return
    over_stretch, over_all = number(model, "mscale", 1.0), number(model, "mscale_all_dim", 0.0)
    if model["rope_type"] == "rope":
        over_stretch = 0.0
    if over_stretch != over_all:
        yield case.error(
            "yarn",
            f"TorchTitan scales all features of attention alike: mscale {over_stretch} and mscale_all_dim {over_all}",
            ("model.mscale", "model.mscale_all_dim", "model.rope_type", "model.rotary_scaling_factor"),
            "train it with `framework: megatron`, or choose a model where both are the same",
            cause="unsupported",
        )


def check_mixture(case: Case) -> Iterator[Finding]:
    """Which layers have experts, and whether TorchTitan's router chooses and balances them as it was asked."""
    if case.shape.experts:
        yield from _check_layers(case)
        yield from _check_groups(case)
        yield from _check_balance(case)


def _check_layers(case: Case) -> Iterator[Finding]:
    try:
        layers_with_experts(case.model)
    except ValueError as error:
        native = "model.moe_layer_freq"
        yield case.error("layers", f"{case.name(native)}: {error}", (native, "model.num_layers"), REMEDY)


def _check_groups(case: Case) -> Iterator[Finding]:
    """TorchTitan chooses groups by the sum of their two best scores."""
    model = case.model
    groups, chosen = size(model, "moe_router_num_groups", 0), size(model, "moe_router_group_topk", 0)
    if not groups and not chosen:
        return
    if not groups or not chosen or case.shape.experts % groups or case.shape.experts // groups < 2:
        yield case.error(
            "groups",
            f"{case.shape.experts} experts cannot be chosen from {chosen} of {groups} groups",
            (_GROUPS, _CHOSEN_GROUPS, "model.num_experts"),
            "set both, so that all groups have the same number of experts, two at least",
        )
        return
    best = size(model, "moe_router_topk", 2) // chosen
    by_scores = model["moe_router_score_function"] == "sigmoid" or model["moe_router_pre_softmax"]
    if best != 2 or not by_scores:
        yield case.error(
            "groups",
            "TorchTitan chooses groups by the sum of their two best scores"
            + (f", not of {best}" if best != 2 else ", not of the router's outputs"),
            (_GROUPS, _CHOSEN_GROUPS, _CHOSEN, "model.moe_router_score_function", "model.moe_router_pre_softmax"),
            "train it with `framework: megatron`, or choose twice as many experts as groups, by their scores",
            cause="unsupported",
        )


def _check_balance(case: Case) -> Iterator[Finding]:
    """The losses that balance the load see all tokens of a micro batch."""
    losses = balancing_losses(case.model)
    others = [kind for kind in losses if kind not in _LOSSES]
    if others:
        yield case.error(
            "balance",
            f"this back end cannot balance experts by {', '.join(others)}",
            (_TYPE, _WEIGHT),
            f"choose {' or '.join(_LOSSES)}, or moe_router_enable_expert_bias, or train with `framework: megatron`",
            cause="unsupported",
        )
    divided = case.size(CONTEXT) > 1 or (case.size(EXPERT) > 1 and case.size(TENSOR) > 1)
    if losses and divided:
        yield case.error(
            "balance",
            "a loss that balances experts needs all tokens of a sequence on one rank",
            (_WEIGHT, CONTEXT, TENSOR, EXPERT),
            "set `moe_aux_loss_coeff: 0`, or leave out context parallelism and tensor beside expert parallelism",
            cause="unsupported",
        )
