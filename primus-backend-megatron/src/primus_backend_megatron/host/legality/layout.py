"""What ``pipeline_model_parallel_layout`` writes down: every layer's stage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding

LAYOUT = "pipeline_model_parallel_layout"
_STAGES, _LAYERS, _NEXT = "pipeline_model_parallel_size", "num_layers", "mtp_num_layers"
_FIXED = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_COUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
_GROUPS = (re.compile(r"\(([^)]+)\)\*(\d+)"), re.compile(r"(.)\*(\d+)"))


def chunks_in(layout: str) -> list[str]:
    """The letters of each chunk, in the order of the layers, as Megatron multiplies them out.

    ``E`` is the embedding, ``t`` a layer, ``m`` a layer of multi-token prediction, ``L`` the loss.
    """
    text = layout.replace(",", "")
    for pattern in _GROUPS:
        text = pattern.sub(lambda found: found[1] * int(found[2]), text)
    return text.split("|")


def check_layout(case: Case) -> Iterator[Finding]:
    """A layout that has every layer once, in order, with all further predictions in one chunk; the first fault."""
    layout = case.values[LAYOUT]
    if not isinstance(layout, str):
        return
    chunks = chunks_in(layout)
    for fault in (_others(case), _letters(case, chunks), _stages(case, chunks), _ends(case, chunks)):
        yield from fault
        if fault:
            return
    yield from (_numbers(case, "".join(chunks)) or _predictions(case, chunks))[:1]


def _others(case: Case) -> list[Finding]:
    others = [name for name in _FIXED if case.values[name] is not None] + [name for name in _COUNTED if case.on(name)]
    if not others:
        return []
    return [_wrong(case, f"{LAYOUT} and {' and '.join(others)} are both set", others, f"keep {LAYOUT} alone")]


def _letters(case: Case, chunks: Sequence[str]) -> list[Finding]:
    unknown = sorted(set(chain.from_iterable(chunks)) - set("EtmL"))
    if not unknown:
        return []
    told = " and ".join(map(repr, unknown))
    remedy = "write E, t, m and L with | between stages, x*n for n times x, and (xy|)*n for n times xy|"
    return [_wrong(case, f"{LAYOUT} has {told}, which is no layer", (), remedy)]


def _stages(case: Case, chunks: Sequence[str]) -> list[Finding]:
    stages = case.size(_STAGES)
    if len(chunks) % stages == 0:
        return []
    summary = f"the {len(chunks)} chunks of {LAYOUT} cannot be divided among {stages} pipeline stages"
    return [_wrong(case, summary, (_STAGES,), f"write {stages} chunks or a multiple of it, with | between them")]


def _ends(case: Case, chunks: Sequence[str]) -> list[Finding]:
    text = "".join(chunks)
    if text[:1] + text[-1:] == "EL" and text.count("E") == text.count("L") == 1:
        return []
    return [_wrong(case, f"{LAYOUT} must begin with E and end with L, each once", (), "write E first and L last")]


def _numbers(case: Case, text: str) -> list[Finding]:
    """Layers that are listed are as many as the model has."""
    wanted = {_LAYERS: ("t", case.shape.layers), _NEXT: ("m", case.size(_NEXT, 0))}
    return [
        _wrong(
            case,
            f"{LAYOUT} has {text.count(letter)} {letter}, and {name} is {number}",
            (name,),
            f"write {letter} {number} times, or set {name} to {text.count(letter)}",
        )
        for name, (letter, number) in wanted.items()
        if text.count(letter) != number
    ]


def _predictions(case: Case, chunks: Sequence[str]) -> list[Finding]:
    """They follow the model's layers, in one chunk, which is the last of its stage."""
    where = [at for at, chunk in enumerate(chunks) if "m" in chunk]
    text, stages = "".join(chunks), case.size(_STAGES)
    faults = {
        "before layers of the model": "t" in text[text.find("m") :],
        "in several chunks": len(where) > 1,
        "not in the last chunk of their stage": any(at < len(chunks) - stages for at in where),
    }
    return [
        _wrong(
            case,
            f"{LAYOUT} has layers of multi-token prediction {fault}",
            (_NEXT, _STAGES),
            f"write all m after the last t, in one of the last {stages} chunks",
        )
        for fault, there in faults.items()
        if where and there
    ]


def _wrong(case: Case, summary: str, keys: Sequence[str], remedy: str) -> Finding:
    return case.error("pipeline-layout", summary, (LAYOUT, *keys), remedy)
