"""Experts over the expert parallel ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding
from primus_core.parameters.layerpattern import REMEDY, layers_with_experts
from primus_core.planning.nearest import nearest_divisors, nearest_multiples, nearest_sizes

_GROUPS, _CHOSEN_GROUPS = "moe_router_num_groups", "moe_router_group_topk"
_PATTERN = re.compile(r"\s*\d+\s*|[\d,()+*]*\[[\d,\[\]()+*]*")
"""The texts that Megatron reads as a number, or as a sum of lists: what has a bracket."""
_EXPERT, _TENSOR = "expert_model_parallel_size", "tensor_model_parallel_size"


def check_experts(case: Case) -> Iterator[Finding]:
    """Mixture of experts: how many there are, who holds them, who is asked."""
    if not case.shape.experts:
        yield from _without_experts(case)
        return
    yield from _layers(case)
    yield from _division(case)
    yield from _single(case)
    yield from _routing(case)
    yield from _groups(case)
    if case.size(_TENSOR) > 1 and not case.on("sequence_parallel"):
        yield case.error(
            "experts",
            "Megatron trains experts with tensor parallelism only where the sequence is divided too",
            ("num_experts", _TENSOR, "sequence_parallel"),
            "set sequence_parallel: true",
        )
    if _expert_tensor(case) > 1 and case.on("add_bias_linear"):
        yield case.error(
            "experts",
            "Megatron's experts have a bias only where each of them is whole on one rank",
            ("num_experts", "add_bias_linear", "expert_tensor_parallel_size", _TENSOR),
            "set add_bias_linear: false, or expert_tensor_parallel_size: 1",
        )


def _without_experts(case: Case) -> Iterator[Finding]:
    if case.size(_EXPERT) > 1:
        yield case.error(
            "experts",
            "expert parallelism without experts",
            ("num_experts", _EXPERT),
            f"set {_EXPERT}: 1, or num_experts",
        )
    if case.values["moe_ffn_hidden_size"] is not None:
        keys = ("num_experts", "moe_ffn_hidden_size")
        yield case.error("experts", "moe_ffn_hidden_size without experts", keys, "remove it, or set num_experts")


def _layers(case: Case) -> Iterator[Finding]:
    """Which layers have experts. Of a wrong text, value or length Megatron fails in each rank."""
    name = "moe_layer_freq"
    frequency = case.values[name]
    try:
        if isinstance(frequency, str) and not _PATTERN.fullmatch(frequency):
            raise ValueError("Megatron reads digits, commas, brackets, + and * alone, and no spaces")
        layers_with_experts(frequency, case.shape.layers)
    except ValueError as error:
        yield case.error("experts", f"{name}: {error}", (name, "num_layers"), REMEDY)


def _division(case: Case) -> Iterator[Finding]:
    experts, ranks, chosen = case.shape.experts, case.size(_EXPERT), case.shape.experts_per_token
    if experts % ranks:
        yield case.error(
            "experts",
            f"{experts} experts cannot be divided among {ranks} expert parallel ranks",
            ("num_experts", _EXPERT),
            f"set {_EXPERT} to {nearest_divisors(experts, ranks)}",
        )
    if chosen > experts:
        yield case.error(
            "experts",
            f"a token cannot go to {chosen} of {experts} experts",
            ("moe_router_topk", "num_experts"),
            f"set moe_router_topk to {experts} or less",
        )


def _single(case: Case) -> Iterator[Finding]:
    """The softmax over one chosen expert is always 1, and the router would learn nothing."""
    softmax = case.values["moe_router_score_function"] == "softmax"
    balanced = "sinkhorn" in str(case.values["moe_router_load_balancing_type"])
    if case.shape.experts_per_token == 1 and softmax and not balanced and not case.on("moe_router_pre_softmax"):
        yield case.error(
            "experts",
            "with one expert for each token the softmax has to come before the choice",
            ("moe_router_topk", "moe_router_pre_softmax"),
            "set moe_router_pre_softmax: true",
        )


def _routing(case: Case) -> Iterator[Finding]:
    """Groups of experts of which a token chooses some first."""
    if not case.on(_CHOSEN_GROUPS):
        return
    experts, chosen, groups = case.shape.experts, case.shape.experts_per_token, case.size(_GROUPS)
    if not case.on(_GROUPS):
        keys = (_CHOSEN_GROUPS, _GROUPS)
        yield case.error(
            "experts", f"{_CHOSEN_GROUPS} without {_GROUPS}", keys, f"set {_GROUPS} to a divisor of {experts}"
        )
        return
    if experts % groups:
        yield case.error(
            "experts",
            f"{experts} experts cannot be divided into {groups} groups",
            ("num_experts", _GROUPS),
            f"set {_GROUPS} to {nearest_divisors(experts, groups)}",
        )
        return

    def fits(size: int) -> bool:
        return size <= groups and size <= chosen <= size * experts // groups

    if not fits(case.size(_CHOSEN_GROUPS)):
        yield case.error(
            "experts",
            f"{chosen} experts cannot be chosen from {case.size(_CHOSEN_GROUPS)} of {groups} groups of experts",
            ("moe_router_topk", _CHOSEN_GROUPS, _GROUPS, "num_experts"),
            f"set {_CHOSEN_GROUPS} to {nearest_sizes(case.size(_CHOSEN_GROUPS), groups, fits)}",
        )


def _groups(case: Case) -> Iterator[Finding]:
    """Experts have a grid of their own: tensor x expert x pipeline must divide the ranks."""
    tensor = _expert_tensor(case)
    replica = tensor * case.size(_EXPERT) * case.size("pipeline_model_parallel_size")
    if case.world_size % replica:
        yield case.error(
            "expert-ranks",
            f"{case.world_size} ranks cannot hold whole replicas of the experts, of {replica} ranks each",
            ("expert_tensor_parallel_size", _TENSOR, _EXPERT, "pipeline_model_parallel_size"),
            f"start {nearest_multiples(case.world_size, replica)} ranks, or make the experts' product a divisor",
        )
    if case.shape.moe_ffn_hidden % tensor:
        yield case.error(
            "ffn",
            f"an expert's {case.shape.moe_ffn_hidden} features cannot be divided among {tensor} ranks",
            ("moe_ffn_hidden_size", "expert_tensor_parallel_size", _TENSOR),
            f"set moe_ffn_hidden_size to {nearest_multiples(case.shape.moe_ffn_hidden, tensor)}",
        )


def _expert_tensor(case: Case) -> int:
    """Ranks that share an expert: those that share a layer, unless the experts have a size of their own."""
    return case.size("expert_tensor_parallel_size", case.size(_TENSOR))
