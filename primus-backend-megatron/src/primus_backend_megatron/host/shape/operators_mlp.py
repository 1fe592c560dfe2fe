"""The feed-forward part of a layer."""

from __future__ import annotations

from primus_backend_megatron.host.shape.operators_linear import add, column, row
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Activation, Operator


def mlp(work: Work) -> list[Operator]:
    """From the stream after attention to the layer's output."""
    bias = ("pre_mlp_layernorm.weight", *(("pre_mlp_layernorm.bias",) if work.norm == "LayerNorm" else ()))
    return [
        *norm(work, "pre_mlp_layernorm", "attended", bias),
        *dense(work, "mlp", "pre_mlp_layernorm", "mlp.output", work.ffn),
        *add(
            work,
            "mlp.add",
            "mlp.output",
            "attended",
            "output",
            component="mlp",
            bias="mlp.linear_fc2.bias" if work.bias else "",
        ),
    ]


def dense(work: Work, name: str, source: str, made: str, ffn: int) -> list[Operator]:
    """Both products and the activation function between them."""
    fc1 = f"{name}.fc1"
    wide = 2 * ffn if work.gated else ffn
    return [
        *column(
            work,
            f"{name}.linear_fc1",
            source,
            fc1,
            wide,
            inner=work.hidden,
            component="mlp",
            biased=work.bias and not (work.fused and _is_fused(work)),
        ),
        *activation(work, name, fc1, work.wide(ffn)),
        row(work, f"{name}.linear_fc2", f"{name}.activated", made, ffn, component="mlp"),
    ]


def _is_fused(work: Work) -> bool:
    return work.case.on("bias_swiglu_fusion" if work.gated else "bias_gelu_fusion")


def activation(work: Work, name: str, source: str, size: int) -> list[Operator]:
    """The activation function, gated or not, whose result has so many bytes.

    By itself each operation of a gate keeps what it reads: the whole input, the gate's value, the other half plus its
    offset. In one kernel only the input is kept.
    """
    done = Activation(name=f"{name}.activated", bytes=size)
    if _is_fused(work) or not work.gated:
        return [Operator(name=f"{name}.activation", component="mlp", reads=(source,), makes=(done,), keeps=(source,))]
    gate, linear = Activation(name=f"{name}.gate", bytes=size), Activation(name=f"{name}.linear", bytes=size)
    half = Activation(name=f"{name}.half", bytes=0, gradient=size)
    other = Activation(name=f"{name}.other", bytes=0, gradient=size)
    return [
        Operator(name=f"{name}.chunk", component="mlp", reads=(source,), makes=(half, other)),
        Operator(
            name=f"{name}.act", component="mlp", reads=(half.name,), makes=(gate,), keeps=(source,), holds=(source,)
        ),
        Operator(
            name=f"{name}.offset",
            component="mlp",
            reads=(other.name,),
            makes=(linear,),
            passes=(other.name,),
            holds=(source,),
        ),
        Operator(
            name=f"{name}.multiply",
            component="mlp",
            reads=(gate.name, linear.name),
            makes=(done,),
            keeps=(gate.name, linear.name),
        ),
    ]
