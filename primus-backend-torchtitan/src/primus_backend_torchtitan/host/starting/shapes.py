"""Whether a checkpoint's weights are those of the model, by the shapes that follow from the experiment.

TorchTitan refuses most differences in every rank, after minutes. Weights that the model has no place for it leaves
out without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import frozen

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.facts import Facts
from primus_backend_torchtitan.host.case import Case
from primus_core.outcome import Finding
from primus_core.planning.starting import Misfit, Tell, compared

_EMBEDDING, _OUTPUT = "tok_embeddings.weight", "lm_head.weight"
_LAYER = re.compile(r"layers\.([0-9]{1,6})\.(.+)")
_FUSED = "qkv_linear."
"""Where the projections of attention are, if one tensor computes them."""
_PADDING = 512
"""Rows; so few more than the vocabulary, of a checkpoint that does not tell it, are taken for its padding."""
_MOST = 4
"""Differences that are told; the others follow from the same mistake."""


@frozen
class _Expected:
    """What the model makes of one weight."""

    shape: tuple[int, ...]
    keys: tuple[str, ...]
    """Portable parameters that decide."""


def check_model(case: Case, facts: Facts, folder: str, tell: Tell) -> Iterator[Finding]:
    """Layers and width, which all else follows from; else heads, vocabulary, shapes, and weights that one has not."""
    misfit = Misfit(folder, tell)
    found = [*_layers(case, facts, misfit), *_width(case, facts, misfit)] or [
        *_heads(case, facts, misfit),
        *_vocabulary(case, facts, misfit),
        *[*_shapes(case, facts, misfit)][:_MOST],
        *_presence(case, facts, misfit),
    ]
    yield from found


def _layers(case: Case, facts: Facts, misfit: Misfit) -> Iterator[Finding]:
    numbers = [number for number, _ in map(_split, facts.tensors) if number is not None]
    theirs, ours = max(numbers, default=-1) + 1, case.shape.layers
    if numbers and theirs != ours:
        yield misfit.layers(theirs, ours, f"its weights are of layers 0 to {theirs - 1}")


def _width(case: Case, facts: Facts, misfit: Misfit) -> Iterator[Finding]:
    embedding, ours = facts.tensors.get(_EMBEDDING), case.shape.hidden
    if embedding and len(embedding.shape) == 2 and embedding.shape[1] != ours:
        why = compared(_EMBEDDING, embedding.shape, (embedding.shape[0], ours))
        yield misfit.width(embedding.shape[1], ours, why)


def _heads(case: Case, facts: Facts, misfit: Misfit) -> Iterator[Finding]:
    theirs, ours = facts.arguments.get("num_attention_heads"), case.shape.heads
    if isinstance(theirs, int) and theirs != ours:
        yield misfit.heads(theirs, ours)


def _vocabulary(case: Case, facts: Facts, misfit: Misfit) -> Iterator[Finding]:
    """TorchTitan loads the rows that were saved and no others."""
    embedding = facts.tensors.get(_EMBEDDING)
    if embedding is None or not embedding.shape:
        return
    rows, ours = embedding.shape[0], size(case.model, "vocab_size", case.shape.vocabulary)
    theirs = facts.arguments.get("vocab_size")
    if not isinstance(theirs, int):
        theirs = ours if ours <= rows < ours + _PADDING else rows
    if theirs != ours or rows != case.shape.vocabulary:
        why = compared(_EMBEDDING, embedding.shape, (case.shape.vocabulary, case.shape.hidden))
        yield misfit.vocabulary(theirs, ours, rows, why)


def _shapes(case: Case, facts: Facts, misfit: Misfit) -> Iterator[Finding]:
    expected, seen = _expected(case), set()
    for name, tensor in facts.tensors.items():
        short = _split(name)[1]
        wanted = expected.get(short)
        if wanted and short not in seen and tensor.shape != wanted.shape:
            seen.add(short)
            yield misfit.shape(name, compared(name, tensor.shape, wanted.shape), wanted.keys)


def _presence(case: Case, facts: Facts, misfit: Misfit) -> Iterator[Finding]:
    """Weights that the model has and the checkpoint lacks, or the other way round: those are left out in silence."""
    names = {short for _, short in map(_split, facts.tensors)}
    for short, (wanted, keys) in _optional(case).items():
        if names and wanted != (short in names):
            why = "" if wanted else "TorchTitan would leave it out without a word: another model than was trained"
            yield misfit.presence(short, keys, why, wanted=wanted)


def _expected(case: Case) -> Mapping[str, _Expected]:
    """By names without the number of the layer; those that depend on more than is known here are left out."""
    shape = case.shape
    inner, outer = ("ffn_hidden_size",), (shape.ffn_hidden, shape.hidden)
    tensors = {
        "norm.weight": _Expected((shape.hidden,), ("hidden_size",)),
        "feed_forward.w1.weight": _Expected(outer, inner),
        "feed_forward.w2.weight": _Expected(outer[::-1], inner),
        "feed_forward.w3.weight": _Expected(outer, inner),
    }
    if shape.experts:
        tensors["moe.router.gate.weight"] = _Expected((shape.experts, shape.hidden), ("num_experts",))
    if not case.model["multi_latent_attention"]:
        keys = ("num_attention_heads", "num_query_groups", "kv_channels")
        query, other = shape.heads * shape.head_size, shape.query_groups * shape.head_size
        tensors["attention.wo.weight"] = _Expected((shape.hidden, query), keys)
        for name, rows in (("wq", query), ("wk", other), ("wv", other)):
            tensors[f"attention.{name}.weight"] = _Expected((rows, shape.hidden), keys)
    return tensors


def _optional(case: Case) -> Mapping[str, tuple[bool, tuple[str, ...]]]:
    """Weights that a model may have or not, whether this one has, and the parameters that decide."""
    rows: dict[str, tuple[bool, tuple[str, ...]]] = {
        "moe.router.gate.weight": (case.shape.experts > 0, ("num_experts",)),
    }
    if not case.shape.tied_embeddings:
        rows[_OUTPUT] = (True, ("untie_embeddings_and_output_weights",))
    if not case.model["multi_latent_attention"]:
        rows["attention.wq.bias"] = (bool(case.model["add_qkv_bias"]), ("add_qkv_bias",))
        rows["attention.q_norm.weight"] = (bool(case.model["qk_layernorm"]), ("qk_layernorm",))
    return rows


def _split(name: str) -> tuple[int | None, str]:
    """A layer's number, where it is in the name, and the name within the layer, however attention is computed."""
    match = _LAYER.fullmatch(name)
    number, short = (int(match[1]), match[2]) if match else (None, name)
    return number, short.replace(_FUSED, "")
