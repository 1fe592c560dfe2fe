"""The products of matrices of TorchTitan's blocks, as operators of which nothing but the operations is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from primus_backend_torchtitan.architecture import Model, size
from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.shape.attention import head_size
from primus_backend_torchtitan.host.shape.schedule import micro_batch
from primus_core.shape import Operator, Parameter

_EXPERT = "inner_experts"
_PARTS = {"attention": "attention", "feed_forward": "mlp", "lm_head": "head", "moe": "experts"}
"""Components by the first word of a parameter's name."""


def products_of(case: Case, parameters: Iterable[Parameter], *, attends: bool) -> tuple[Operator, ...]:
    """Of a micro batch, by the weights that it is multiplied with; a multiplication and an addition are two.

    Args:
        attends: the block has attention, whose scores no weight makes.
    """
    matrices = [_product(case, weight) for weight in parameters if len(weight.shape) > 1]
    return (*matrices, _attention(case)) if attends else tuple(matrices)


def output_of_embedding(case: Case) -> Iterator[Operator]:
    """Logits where the output has no weight of its own."""
    sizes = (size(case.model, "padded_vocab_size"), size(case.model, "hidden_size"))
    yield _product(case, Parameter(name="lm_head.weight", shape=sizes, dtype="fp32"))


def _product(case: Case, weight: Parameter) -> Operator:
    """With every row of the micro batch; of experts with those that are routed to one, which is on average the same."""
    tokens = micro_batch(case) * case.shape.sequence
    incoming, outgoing = weight.shape[-1], weight.shape[-2]
    uses = case.shape.experts_per_token if _EXPERT in weight.name else 1
    return Operator(
        name=weight.name.removesuffix(".weight"),
        component=_PARTS[weight.name.partition(".")[0]],
        flops=2 * tokens * incoming * outgoing * uses,
    )


def _attention(case: Case) -> Operator:
    """Scores of all tokens of a sequence with all others, and the sums that they weigh."""
    samples, sequence, model = micro_batch(case), case.shape.sequence, case.model
    features = size(model, "num_attention_heads") * sum(_widths(model))
    return Operator(
        name="attention.inner_attention",
        component="attention",
        flops=2 * samples * sequence * sequence * features,
        causal=True,
    )


def _widths(model: Model) -> tuple[int, int]:
    """Features of a head's keys and of its values."""
    if model["multi_latent_attention"]:
        plain, turned, value = (size(model, name) for name in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"))
        return plain + turned, value
    return head_size(model), head_size(model)
