"""Whether a checkpoint's weights are those of the model, by the shapes that follow from the experiment.

Megatron refuses most differences in every rank, after minutes. Some it passes in silence: it cuts or pads the
vocabulary with zeros, and drops weights that the model has no place for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import frozen

from primus_backend_megatron.facts import Facts
from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.starting.subject import Subject
from primus_core.outcome import Finding
from primus_core.planning.starting import Misfit, compared

_EMBEDDING, _OUTPUT = "embedding.word_embeddings.weight", "output_layer.weight"
_LAYER = re.compile(r"decoder\.layers\.(?:(\d+)\.)?(.+)")
_MOST = 4
"""Differences that are told; the others follow from the same mistake."""


@frozen
class _Expected:
    """What the model makes of one weight; the sizes of a layer's do not count the layers."""

    shape: tuple[int, ...]
    keys: tuple[str, ...]
    """Megatron's parameters that decide."""
    split: int | None = None
    """The axis that tensor-parallel ranks divide."""


def check_model(subject: Subject, facts: Facts) -> tuple[Finding, ...]:
    """Layers and width, which all else follows from; else vocabulary, shapes, and weights that one of both has not."""
    size = (*_layers(subject, facts), *_width(subject, facts))
    if subject.case.on("heterogeneous_layers_config_path"):
        return size or tuple(_vocabulary(subject, facts))
    return size or (
        *_heads(subject, facts),
        *_vocabulary(subject, facts),
        *tuple(_shapes(subject, facts))[:_MOST],
        *_presence(subject, facts),
    )


def _heads(subject: Subject, facts: Facts) -> Iterator[Finding]:
    name = "num_attention_heads"
    theirs, ours = facts.arguments.get(name), subject.case.values[name]
    if type(theirs) is int and type(ours) is int and theirs != ours:
        yield _misfit(subject).heads(theirs, ours)


def _layers(subject: Subject, facts: Facts) -> Iterator[Finding]:
    ours, theirs = subject.case.shape.layers, _layers_of(facts)
    if theirs is not None and theirs != ours:
        stacked, expected = _stacked(facts, _PROJECTION), _expected(subject.case).get(_PROJECTION)
        why = compared(f"decoder.layers.{_PROJECTION}", stacked, (ours, *(expected.shape if expected else stacked[1:])))
        yield _misfit(subject).layers(theirs, ours, why)


_PROJECTION = "self_attention.linear_proj.weight"


def _stacked(facts: Facts, name: str) -> tuple[int, ...]:
    tensor = facts.tensors.get(f"decoder.layers.{name}")
    return tensor.shape if tensor else ()


def _layers_of(facts: Facts) -> int | None:
    """By the weights, where all layers are in one tensor, else by Megatron's saved parameters."""
    stacked = _stacked(facts, _PROJECTION)
    told = facts.arguments.get("num_layers")
    return stacked[0] if stacked else told if type(told) is int else None


def _width(subject: Subject, facts: Facts) -> Iterator[Finding]:
    ours, embedding = subject.case.shape.hidden, facts.tensors.get(_EMBEDDING)
    if embedding and embedding.shape[-1:] != (ours,):
        theirs = embedding.shape[-1] if embedding.shape else 0
        why = compared(_EMBEDDING, embedding.shape, (*embedding.shape[:-1], ours))
        yield _misfit(subject).width(theirs, ours, why)


def _vocabulary(subject: Subject, facts: Facts) -> Iterator[Finding]:
    """The rows may differ by their padding, which depends on the layout, and by nothing else."""
    embedding = facts.tensors.get(_EMBEDDING)
    if embedding is None or not embedding.shape:
        return
    case, ranks = subject.case, facts.layout.get("tensor", 1)
    rows = embedding.shape[0] * (ranks if facts.format == "torch" else 1)
    ours = case.size("vocab_size", case.shape.vocabulary)
    theirs = facts.arguments.get("vocab_size")
    if type(theirs) is not int:
        theirs = ours if ours <= rows < ours + case.size("make_vocab_size_divisible_by") * max(ranks, 1) else rows
    fixed = facts.format == "torch" and rows != case.shape.vocabulary
    if theirs != ours or fixed:
        why = compared(_EMBEDDING, (rows, *embedding.shape[1:]), (case.shape.vocabulary, case.shape.hidden))
        if facts.format == "torch_dist":
            why += "\nMegatron would cut it, or fill it with zeros, without a word"
        yield _misfit(subject).vocabulary(theirs, ours, rows, why)


def _shapes(subject: Subject, facts: Facts) -> Iterator[Finding]:
    expected = _expected(subject.case)
    seen = set()
    for name, tensor in facts.tensors.items():
        index, short = _split(name)
        wanted = expected.get(short)
        if wanted is None or short in seen:
            continue
        shape = tensor.shape[1:] if short != name and index is None else tensor.shape
        ours = _divided(wanted, subject.case, facts)
        if shape != ours:
            seen.add(short)
            front = tensor.shape[: len(tensor.shape) - len(shape)]
            yield _misfit(subject).shape(name, compared(name, tensor.shape, (*front, *ours)), wanted.keys)


def _presence(subject: Subject, facts: Facts) -> Iterator[Finding]:
    """Weights that the model has and the checkpoint lacks, or the other way round: those are dropped in silence."""
    if not facts.tensors or (facts.format == "torch" and facts.layout.get("pipeline", 1) > 1):
        return
    names = {short for _, short in map(_split, facts.tensors)}
    for short, (wanted, keys) in _optional(subject.case).items():
        if wanted == (short in names):
            continue
        why = "" if wanted else "Megatron would drop it without a word: another model than the one that was trained"
        yield _misfit(subject).presence(short, keys, why, wanted=wanted)


def _expected(case: Case) -> Mapping[str, _Expected]:
    """By names without the number of the layer; those that depend on more than is known here are left out."""
    shape, tensors = case.shape, {}
    gate = 2 if shape.gated_mlp else 1
    tensors["decoder.final_layernorm.weight"] = _Expected((shape.hidden,), ("hidden_size",))
    tensors["mlp.linear_fc1.weight"] = _Expected(
        (gate * shape.ffn_hidden, shape.hidden), ("ffn_hidden_size", "swiglu"), 0
    )
    tensors["mlp.linear_fc2.weight"] = _Expected((shape.hidden, shape.ffn_hidden), ("ffn_hidden_size",), 1)
    if shape.experts:
        tensors["mlp.router.weight"] = _Expected((shape.experts, shape.hidden), ("num_experts",))
    if not case.on("multi_latent_attention") and not case.on("attention_output_gate"):
        width = shape.heads * shape.head_size
        keys = ("num_attention_heads", "num_query_groups", "kv_channels")
        tensors[_PROJECTION] = _Expected((shape.hidden, width), keys, 1)
        rows = width + 2 * shape.query_groups * shape.head_size
        tensors["self_attention.linear_qkv.weight"] = _Expected((rows, shape.hidden), keys, 0)
    return tensors


def _optional(case: Case) -> Mapping[str, tuple[bool, tuple[str, ...]]]:
    """Weights that a model may have or not, whether this one has, and the parameters that decide."""
    bias, latent = case.on("add_bias_linear"), case.on("multi_latent_attention")
    layer_norm = case.values["normalization"] == "LayerNorm"
    positions = case.values["position_embedding_type"] == "learned_absolute"
    rows: dict[str, tuple[bool, tuple[str, ...]]] = {
        _OUTPUT: (not case.shape.tied_embeddings, ("untie_embeddings_and_output_weights",)),
        "decoder.final_layernorm.bias": (layer_norm, ("normalization",)),
        "embedding.position_embeddings.weight": (positions, ("position_embedding_type",)),
        "self_attention.linear_proj.bias": (bias, ("add_bias_linear",)),
        "mlp.router.weight": (case.shape.experts > 0, ("num_experts",)),
    }
    if not latent:
        rows["self_attention.linear_qkv.bias"] = (bias or case.on("add_qkv_bias"), ("add_bias_linear", "add_qkv_bias"))
        rows["self_attention.q_layernorm.weight"] = (case.on("qk_layernorm"), ("qk_layernorm",))
    return rows


def _divided(wanted: _Expected, case: Case, facts: Facts) -> tuple[int, ...]:
    """The part of a tensor-parallel rank, where the format keeps parts."""
    if facts.format != "torch" or wanted.split is None:
        return wanted.shape
    ranks = case.size("tensor_model_parallel_size")
    return tuple(size // ranks if axis == wanted.split else size for axis, size in enumerate(wanted.shape))


def _split(name: str) -> tuple[int | None, str]:
    """A layer's number, where it is in the name, and the name within the layer."""
    match = _LAYER.fullmatch(name)
    if match is None:
        return None, name
    return (int(match[1]) if match[1] else None), match[2]


def _misfit(subject: Subject) -> Misfit:
    return Misfit(subject.folder, subject.finding)
