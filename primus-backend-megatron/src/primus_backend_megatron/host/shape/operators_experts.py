"""A feed-forward part with experts: routing, the way of the tokens to their experts and back, shared experts."""

from __future__ import annotations

from attrs import evolve, frozen

from primus_backend_megatron.host.shape.operators_linear import add
from primus_backend_megatron.host.shape.operators_mlp import dense
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_work import Work
from primus_backend_megatron.host.shape.parameters import expert_name
from primus_core.operators import FP32, INT64
from primus_core.shape import Activation, Operator

_EXPERTS = "mlp.experts"
_COMPONENT = "experts"


@frozen(kw_only=True)
class Experts:
    """What of a layer's experts is on one rank.

    Attributes:
        rows: tokens that it sends, each counted once for every expert that gets it.
        received: tokens that its experts get, by all ranks that divide them.
        local: experts of this rank.
        ffn: features of the share of one rank.
        parts: experts whose products are made one after the other.
    """

    rows: int
    received: int
    local: int
    ffn: int
    parts: int
    all: int
    chosen: int
    expert_tensor: int

    @property
    def routed(self) -> bool:
        """Tokens are sent to experts of other ranks."""
        return self.local < self.all

    @classmethod
    def of(cls, work: Work) -> Experts:
        """Every expert gets as many tokens as every other."""
        case = work.case
        tensor = case.size("expert_tensor_parallel_size", work.tensor)
        local = case.shape.experts // case.size("expert_model_parallel_size")
        rows = work.own_tokens * case.shape.experts_per_token
        return cls(
            rows=rows,
            received=rows * tensor,
            local=local,
            ffn=case.shape.moe_ffn_hidden // tensor,
            parts=1 if case.on("moe_grouped_gemm") else local,
            all=case.shape.experts,
            chosen=case.shape.experts_per_token,
            expert_tensor=tensor,
        )


def mixture(work: Work) -> list[Operator]:
    """From the stream after attention to the layer's output."""
    experts = Experts.of(work)
    source = "pre_mlp_layernorm"
    return [
        *norm(work, source, "attended", (f"{source}.weight",)),
        *_shared(work, source),
        _router(work, experts, source),
        *_dispatch(work, experts, source),
        *(evolve(each, routed=experts.routed) for each in _products(work, experts)),
        *_combine(work, experts),
        *_sum(work),
        *add(work, "mlp.add", "mlp.output", "attended", "output", component="mlp"),
    ]


def _has_shared(work: Work) -> bool:
    return work.case.on("moe_shared_expert_intermediate_size")


def _shared(work: Work, source: str) -> list[Operator]:
    if not _has_shared(work):
        return []
    width = work.case.size("moe_shared_expert_intermediate_size") // work.tensor
    name = "mlp.shared_experts"
    if not work.case.on("moe_shared_expert_gate"):
        return dense(work, name, source, "shared", width)
    return [*dense(work, name, source, "ungated", width), _gate(work, f"{name}.gate", source)]


def _gate(work: Work, name: str, source: str) -> Operator:
    """Weighs the shared expert's output, which it keeps, by a number for each token."""
    return Operator(
        name=name,
        component=_COMPONENT,
        reads=(source, "ungated"),
        makes=(Activation(name="shared", bytes=work.stream()),),
        keeps=(source, "ungated"),
        weights=(f"{name}_weight",),
        flops=2 * work.tokens * work.context * work.hidden,
    )


def _sum(work: Work) -> list[Operator]:
    if not _has_shared(work):
        return []
    reads = ("routed", "shared")
    made = Activation(name="mlp.output", bytes=work.stream())
    return [Operator(name="mlp.shared_experts.add", component="experts", reads=reads, passes=reads, makes=(made,))]


def _router(work: Work, experts: Experts, source: str) -> Operator:
    """Scores of all experts; kept are the chosen ones, and the order of the tokens by expert with its keys."""
    scores = work.own_tokens * experts.all
    chosen = work.own_tokens * experts.chosen
    kept = scores * (INT64 + 1 + 1 + work.element) + chosen * (INT64 + work.element + FP32)
    fp32 = work.case.values["moe_router_dtype"] in ("fp32", "fp64")
    cast = work.stream(FP32) if fp32 and work.element != FP32 else 0
    return Operator(
        name="mlp.router",
        component="router",
        reads=(source,),
        makes=(
            Activation(name="routing", bytes=kept, gradient=0),
            Activation(name="probabilities", bytes=chosen * work.element),
        ),
        keeps=(source, "routing"),
        scratch=cast,
        backward_scratch=cast,
        weights=("mlp.router.weight",),
        flops=2 * work.tokens * work.context * work.hidden * experts.all,
    )


def _dispatch(work: Work, experts: Experts, source: str) -> list[Operator]:
    """Copies of the tokens, one for each of their experts, sent to them and put in the order of this rank's experts."""
    size = experts.rows * work.hidden * work.element
    index = Activation(name="permuted.index", bytes=experts.rows * INT64, gradient=0)
    operators = [
        Operator(
            name="mlp.permute",
            component=_COMPONENT,
            reads=(source, "probabilities"),
            makes=(index, Activation(name="permuted", bytes=size)),
            keeps=("permuted.index",),
            backward_scratch=work.stream(),
        )
    ]
    last = "permuted"
    for name, made in _moves(work, experts):
        bytes_ = (
            (experts.received if name == "gather" or last == "gathered" else experts.rows) * work.hidden * work.element
        )
        operators.append(
            Operator(
                name=f"mlp.{name}",
                component=_COMPONENT,
                reads=(last,),
                makes=(Activation(name=made, bytes=bytes_),),
                routed=experts.routed,
            )
        )
        last = made
    return operators


def _moves(work: Work, experts: Experts) -> list[tuple[str, str]]:
    """Steps between the copies and the products, each of which makes all of them anew."""
    moves = []
    if experts.local < experts.all:
        moves.append(("send", "sent"))
    if experts.expert_tensor > 1:
        moves.append(("gather", "gathered"))
    if experts.local > 1:
        moves.append(("sort", "sorted"))
    return moves


def _arrived(work: Work, experts: Experts) -> str:
    return ("permuted", *(made for _, made in _moves(work, experts)))[-1]


def _products(work: Work, experts: Experts) -> list[Operator]:
    """Both products of all experts. One after the other, only one's gradients of what is between live at a time."""
    source, rows = _arrived(work, experts), experts.received
    wide = (2 if work.gated else 1) * experts.ffn * rows * work.element
    size, parts = experts.ffn * rows * work.element, experts.parts
    flops = 2 * rows * experts.ffn * work.hidden * work.tensor * work.context
    fc1 = Activation(name="experts.fc1", bytes=wide, gradient=wide // parts)
    done = Activation(name="experts.activated", bytes=size, gradient=size // parts)
    held = _held(work, experts)
    return [
        Operator(
            name=f"{_EXPERTS}.linear_fc1",
            component=_COMPONENT,
            reads=(source,),
            makes=(fc1,),
            keeps=(source,),
            holds=held,
            weights=_weights(work, experts, "linear_fc1"),
            flops=flops * (2 if work.gated else 1),
        ),
        *_activation(work, experts, size, done),
        Operator(
            name=f"{_EXPERTS}.linear_fc2",
            component=_COMPONENT,
            reads=(done.name,),
            makes=(Activation(name="experts.output", bytes=rows * work.hidden * work.element),),
            keeps=(done.name,),
            holds=held,
            weights=_weights(work, experts, "linear_fc2"),
            flops=flops,
        ),
    ]


def _weights(work: Work, experts: Experts, part: str) -> tuple[str, ...]:
    """The gradients of experts that work one after the other are made one after the other: that of the first. FSDP2
    takes them when all of the layer's are there."""
    count = experts.local if work.case.on("use_torch_fsdp2") or experts.parts == 1 else 1
    return tuple(expert_name(work.case, index, part, "weight") for index in range(count))


def _activation(work: Work, experts: Experts, size: int, done: Activation) -> list[Operator]:
    """The activation function, times the weight of the token."""
    part = size // experts.parts
    if work.case.on("bias_swiglu_fusion" if work.gated else "bias_gelu_fusion"):
        return [_one(work, done)]
    names = ("gate", "linear") if work.gated else ("gate",)
    made = tuple(Activation(name=f"experts.{name}", bytes=size, gradient=part) for name in names)
    product = Activation(name="experts.product", bytes=size, gradient=part)
    read = tuple(each.name for each in made)
    return [
        Operator(name="experts.act", component=_COMPONENT, reads=("experts.fc1",), makes=made, keeps=("experts.fc1",)),
        *(
            [Operator(name="experts.multiply", component=_COMPONENT, reads=read, makes=(product,), keeps=read)]
            if work.gated
            else ()
        ),
        Operator(
            name="experts.weigh",
            component=_COMPONENT,
            reads=("experts.product" if work.gated else "experts.gate",),
            makes=(done,),
            keeps=("experts.product" if work.gated else "experts.gate",),
            backward_scratch=part,
        ),
    ]


def _one(work: Work, done: Activation) -> Operator:
    return Operator(
        name="experts.activation", component=_COMPONENT, reads=("experts.fc1",), makes=(done,), keeps=("experts.fc1",)
    )


def _combine(work: Work, experts: Experts) -> list[Operator]:
    """The way back: joined, sorted, summed over the ranks that divide experts, sent back, added up by token."""
    back = {"sort": "unsort", "gather": "scatter", "send": "return"}
    operators, last = [], "experts.output"
    size = experts.received * work.hidden * work.element
    if experts.parts > 1:
        operators.append(evolve(_move("mlp.join", last, "joined", size, _held(work, experts)), routed=experts.routed))
        last = "joined"
    for name, _ in reversed(_moves(work, experts)):
        if name == "gather":
            size = experts.rows * work.hidden * work.element
        move = _move(f"mlp.{back[name]}", last, back[name], size, _held(work, experts))
        operators.append(evolve(move, routed=experts.routed and name != "send"))
        last = back[name]
    made = Activation(name="routed" if _has_shared(work) else "mlp.output", bytes=work.stream())
    return [
        *operators,
        Operator(name="mlp.unpermute", component=_COMPONENT, reads=(last,), makes=(made,), holds=_held(work, experts)),
    ]


def _held(work: Work, experts: Experts) -> tuple[str, ...]:
    """What the library refers to until the experts' output is there: all but what they read themselves."""
    return ("pre_mlp_layernorm", *("permuted", *(made for _, made in _moves(work, experts)))[:-1])


def _move(name: str, source: str, made: str, size: int, holds: tuple[str, ...]) -> Operator:
    return Operator(
        name=name,
        component=_COMPONENT,
        reads=(source,),
        makes=(Activation(name=made, bytes=size),),
        holds=holds,
    )
