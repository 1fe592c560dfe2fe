"""Sizes of a mixture of experts on one rank, and words for its operators."""

from __future__ import annotations

from attrs import frozen

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.host.case import EXPERT
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.shape import Activation, Operator

MAP = "moe.map"
"""Which token goes to which expert; TorchTitan's code refers to it while the experts run."""


@frozen(kw_only=True)
class Mixture:
    """Of one rank.

    Attributes:
        work: sizes of all operators.
        apart: experts are divided among ranks; tensor parallel ones then share out the tokens, too.
        chosen: experts of a token, of so many (`count`).
        inner, shared: features between the products of a routed expert, and of the one of every token: tensor parallel
            ranks have slices of the latter, and where experts are not divided among ranks, of all.
    """

    work: Work
    apart: bool
    chosen: int
    count: int
    inner: int
    shared: int
    biased: bool
    normalized: bool
    groups: int
    limit: int

    @classmethod
    def of(cls, work: Work) -> Mixture:
        """What a plan asks for."""
        case, model, apart = work.case, work.case.model, work.case.size(EXPERT) > 1
        chosen, sigmoid = case.shape.experts_per_token, model["moe_router_score_function"] == "sigmoid"
        return cls(
            work=work,
            apart=apart,
            chosen=chosen,
            count=case.shape.experts,
            inner=case.shape.moe_ffn_hidden // (1 if apart else work.tensor),
            shared=size(model, "moe_shared_expert_intermediate_size", 0) // work.tensor,
            biased=bool(model["moe_router_enable_expert_bias"] and model["moe_router_bias_update_rate"]),
            normalized=chosen > 1 if sigmoid else not model["moe_router_pre_softmax"],
            groups=size(model, "moe_router_num_groups", 0),
            limit=size(model, "moe_router_group_topk", 0),
        )

    @property
    def slices(self) -> int:
        """Ranks that an expert's features are divided by."""
        return 1 if self.apart else self.work.tensor

    @property
    def tokens(self) -> int:
        """Of a micro batch, that this rank routes."""
        return self.work.tokens // (self.work.tensor if self.apart else 1)

    @property
    def rows(self) -> int:
        """Each token as often as there are experts that get it; what the experts of a mean rank get is as much."""
        return self.tokens * self.chosen

    @property
    def stream(self) -> int:
        """Bytes of the residual stream."""
        return self.tokens * self.work.hidden * self.work.element

    @property
    def copies(self) -> int:
        """Bytes of as many tokens as there are rows."""
        return self.rows * self.work.hidden * self.work.element

    @property
    def wide(self) -> int:
        """Bytes of what is between the products of experts."""
        return self.rows * self.inner * self.work.element

    def product(self, width: int, uses: int = 1) -> int:
        """Operations of a product of the stream of all ranks that share it with a matrix of so many features."""
        return 2 * self.work.tokens * self.work.context * self.work.hidden * width * uses


def one(
    name: str,
    reads: list[str],
    makes: list[tuple[str, int]],
    *,
    keeps: list[str] | None = None,
    weights: list[str] | None = None,
    flops: int = 0,
    routed: bool = False,
) -> Operator:
    """While it runs, TorchTitan's code still refers to the map of tokens to experts."""
    return Operator(
        name=name,
        component="experts",
        reads=tuple(reads),
        makes=tuple(Activation(name=made, bytes=size) for made, size in makes),
        keeps=tuple(keeps or ()),
        holds=() if name.startswith("moe.router") else (MAP,),
        weights=tuple(weights or ()),
        flops=flops,
        routed=routed,
    )


def index(name: str, size: int) -> Activation:
    """What has no gradient."""
    return Activation(name=name, bytes=size, gradient=0)
