"""What a mixture of experts makes and keeps of a micro batch, operator by operator, as TorchTitan's code runs them."""

from __future__ import annotations

from attrs import evolve, frozen

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, TENSOR, Case
from primus_backend_torchtitan.host.shape.schedule import micro_batch
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.shape import DTYPE_BYTES, Activation, Operator

_FP32, _INT64 = 4, 8
_MAP = "moe.map"
_ROUTED = "moe.routed_experts.inner_experts"


@frozen(kw_only=True)
class _Work:
    """Of one rank.

    Attributes:
        tokens: of a micro batch; where experts are divided among ranks, tensor parallel ones share them out.
        together: of a micro batch on all ranks that share its sequences.
        rows: each token as often as there are experts that get it.
        inner, shared: features between the products of a routed expert, and of the one of every token: tensor parallel
            ranks have slices of the latter, and where experts are not divided among ranks, of all.
        slices: ranks that an expert's features are divided by.
        element: bytes of a number in the format of the forward pass.
    """

    tokens: int
    together: int
    chosen: int
    rows: int
    hidden: int
    inner: int
    shared: int
    slices: int
    tensor: int
    count: int
    element: int
    biased: bool
    normalized: bool

    @classmethod
    def of(cls, case: Case) -> _Work:
        model = case.model
        together = micro_batch(case) * case.shape.sequence
        tensor, apart = case.size(TENSOR), case.size(EXPERT) > 1
        tokens = together // case.size(CONTEXT) // (tensor if apart else 1)
        chosen = case.shape.experts_per_token
        sigmoid = model["moe_router_score_function"] == "sigmoid"
        return cls(
            tokens=tokens,
            together=together,
            chosen=chosen,
            rows=tokens * chosen,
            hidden=case.shape.hidden,
            inner=case.shape.moe_ffn_hidden // (1 if apart else tensor),
            shared=size(model, "moe_shared_expert_intermediate_size", 0) // tensor,
            slices=1 if apart else tensor,
            tensor=tensor,
            count=case.shape.experts,
            element=DTYPE_BYTES[DTYPES[case.values["training.mixed_precision_param"]]],
            biased=bool(model["moe_router_enable_expert_bias"] and model["moe_router_bias_update_rate"]),
            normalized=chosen > 1 if sigmoid else not model["moe_router_pre_softmax"],
        )

    @property
    def stream(self) -> int:
        """Bytes of the residual stream."""
        return self.tokens * self.hidden * self.element

    def product(self, width: int, uses: int = 1) -> int:
        """Operations of a product of the stream with a matrix of so many features."""
        return 2 * self.together * self.hidden * width * uses

    @property
    def wide(self) -> int:
        """Bytes of what is between the products of experts."""
        return self.rows * self.inner * self.element


def experts_operators(case: Case, source: str, output: str) -> tuple[Operator, ...]:
    """From the normalized stream to what is added to the residual one, on a rank that has all experts whole."""
    work = _Work.of(case)
    return (
        *_router(work, source),
        *_order(work, source),
        *_products(work),
        *_combine(work, "moe.routed" if work.shared else output),
        *(_shared(work, source, output) if work.shared else ()),
    )


def _router(work: _Work, source: str) -> list[Operator]:
    """Scores of all experts, and those of the chosen ones. Tensor parallel ranks that do not divide the tokens make all
    of them on each."""
    scores, chosen = work.tokens * work.count * work.element, work.rows * work.element
    compared = work.tokens * work.count * _FP32 if work.biased else 0
    gate = _one(
        "moe.router.gate",
        [source],
        [("moe.logits", scores)],
        keeps=[source],
        weights=["moe.router.gate.weight"],
        flops=work.product(work.count),
    )
    operators = [
        evolve(gate, hardware_flops=gate.flops * work.slices),
        _one("moe.router.score", ["moe.logits"], [("moe.scores", scores)], keeps=["moe.scores"]),
        Operator(
            name="moe.router.choose",
            component="experts",
            reads=("moe.scores",),
            makes=(_index("moe.ids", work.rows * _INT64), Activation(name="moe.chosen", bytes=chosen)),
            keeps=("moe.ids", "moe.scores"),
            scratch=compared + work.rows * (_FP32 if work.biased else work.element),
        ),
    ]
    if not work.normalized:
        return [*operators, _one("moe.router.scale", ["moe.chosen"], [("moe.weights", chosen)])]
    return [*operators, _shares(work, chosen), _one("moe.router.scale", ["moe.shares"], [("moe.weights", chosen)])]


def _shares(work: _Work, chosen: int) -> Operator:
    """The scores of a token's experts, divided by their sum."""
    total = _index("moe.total", work.tokens * work.element)
    return Operator(
        name="moe.router.normalize",
        component="experts",
        reads=("moe.chosen",),
        makes=(total, Activation(name="moe.shares", bytes=chosen)),
        keeps=("moe.chosen", total.name),
        backward_scratch=chosen,
    )


def _order(work: _Work, source: str) -> list[Operator]:
    """Tokens by expert: their copies, and their weights."""
    rows = work.rows
    order, tokens = _index("moe.order", rows * _INT64), _index("moe.tokens", rows * _INT64)
    return [
        Operator(name="moe.map", component="experts", makes=(_index(_MAP, work.tokens * work.count),)),
        Operator(
            name="moe.sort",
            component="experts",
            reads=("moe.weights",),
            makes=(order, Activation(name="moe.sorted", bytes=rows * work.element), tokens),
            keeps=(order.name,),
            holds=(_MAP,),
            scratch=rows * _INT64,
        ),
        Operator(
            name="moe.copy",
            component="experts",
            reads=(source,),
            makes=(Activation(name="moe.copies", bytes=rows * work.hidden * work.element),),
            keeps=(tokens.name,),
            holds=(_MAP,),
        ),
    ]


def _products(work: _Work) -> list[Operator]:
    """Three grouped products and the gate between them."""
    out = work.rows * work.hidden * work.element
    copies, flops = ["moe.copies"], work.product(work.inner * work.slices, work.chosen)
    return [
        _one(
            f"{_ROUTED}.w1", copies, [("moe.gate", work.wide)], keeps=copies, weights=[f"{_ROUTED}.w1_EFD"], flops=flops
        ),
        _one(f"{_ROUTED}.silu", ["moe.gate"], [("moe.gated", work.wide)], keeps=["moe.gate"]),
        _one(
            f"{_ROUTED}.w3", copies, [("moe.up", work.wide)], keeps=copies, weights=[f"{_ROUTED}.w3_EFD"], flops=flops
        ),
        _one(
            f"{_ROUTED}.multiply",
            ["moe.gated", "moe.up"],
            [("moe.inner", work.wide)],
            keeps=["moe.gated", "moe.up"],
        ),
        _one(
            f"{_ROUTED}.w2",
            ["moe.inner"],
            [("moe.out", out)],
            keeps=["moe.inner"],
            weights=[f"{_ROUTED}.w2_EDF"],
            flops=flops,
        ),
    ]


def _combine(work: _Work, output: str) -> list[Operator]:
    """What experts return, weighed in fp32 and added up by token."""
    rows = work.rows * work.hidden
    last = "moe.cast" if work.element != _FP32 else "moe.out"
    weighed = evolve(
        _added(work, "moe.weigh", [last, "moe.sorted"], "moe.weighed", rows * _FP32),
        keeps=(last, "moe.sorted"),
        backward_scratch=rows * _FP32 + work.rows * _FP32,
    )
    if work.element == _FP32:
        return [weighed, _sum(work, "moe.weighed", output)]
    return [
        _one("moe.cast", ["moe.out"], [("moe.cast", rows * _FP32)]),
        weighed,
        _added(work, "moe.round", ["moe.weighed"], "moe.rounded", rows * work.element),
        _sum(work, "moe.rounded", output),
    ]


def _sum(work: _Work, source: str, output: str) -> Operator:
    return evolve(_added(work, "moe.add_up", [source], output, work.stream), keeps=("moe.tokens",))


def _added(work: _Work, name: str, reads: list[str], made: str, size: int) -> Operator:
    """A step beside which the copies, the experts' output and the empty sums live."""
    operator = _one(name, reads, [(made, size)])
    return evolve(operator, holds=(_MAP, "moe.copies", "moe.out"), scratch=work.stream)


def _shared(work: _Work, source: str, output: str) -> list[Operator]:
    """The expert of every token, and the sum."""
    name, wide = "moe.shared_experts", work.tokens * work.shared * work.element
    both = ("moe.routed", "moe.shared")
    made = [f"{name}.{part}" for part in ("gate", "gated", "up", "inner")]
    gate, gated, up, inner = made
    flops = work.product(work.shared * work.tensor)
    return [
        _one(f"{name}.w1", [source], [(gate, wide)], keeps=[source], weights=[f"{name}.w1.weight"], flops=flops),
        _one(f"{name}.silu", [gate], [(gated, wide)], keeps=[gate]),
        _one(f"{name}.w3", [source], [(up, wide)], keeps=[source], weights=[f"{name}.w3.weight"], flops=flops),
        _one(f"{name}.multiply", [gated, up], [(inner, wide)], keeps=[gated, up]),
        _one(
            f"{name}.w2",
            [inner],
            [("moe.shared", work.stream)],
            keeps=[inner],
            weights=[f"{name}.w2.weight"],
            flops=flops,
        ),
        Operator(
            name="moe.add",
            component="experts",
            reads=both,
            passes=both,
            makes=(Activation(name=output, bytes=work.stream),),
            holds=(_MAP,),
        ),
    ]


def _one(
    name: str,
    reads: list[str],
    makes: list[tuple[str, int]],
    *,
    keeps: list[str] | None = None,
    weights: list[str] | None = None,
    flops: int = 0,
) -> Operator:
    """While it runs, TorchTitan's code still refers to the map of tokens to experts."""
    return Operator(
        name=name,
        component="experts",
        reads=tuple(reads),
        makes=tuple(Activation(name=made, bytes=size) for made, size in makes),
        keeps=tuple(keeps or ()),
        holds=() if name.startswith("moe.router") else (_MAP,),
        weights=tuple(weights or ()),
        flops=flops,
    )


def _index(name: str, size: int) -> Activation:
    """What has no gradient."""
    return Activation(name=name, bytes=size, gradient=0)
