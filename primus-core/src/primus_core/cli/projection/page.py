"""The page that shows a projection: the text of a terminal, and HTML."""

from __future__ import annotations

from primus_core.cli.projection.answer import Answer
from primus_core.cli.projection.stages import KINDS, NAMES, size_of, tables_of
from primus_core.projection.advice import Effect
from primus_core.quantities import memory_size
from primus_core.render.bars import Bars, Part
from primus_core.render.pages import Block, Page, Paragraph
from primus_core.render.tables import Column, Table

_GIB = 1 << 30


def projection_page(answer: Answer) -> Page:
    """All that is told, from top to bottom."""
    blocks: list[Block] = [Paragraph(_run(answer)), Paragraph(_verdict(answer))]
    blocks += [Paragraph(_operations(answer))] if answer.model_flops_per_token else []
    blocks += [*tables_of(answer.stages, answer.heaviest), _chart(answer)]
    blocks += [_margin(answer)] if answer.margin else []
    blocks += [Paragraph(answer.sought)] if answer.sought else []
    blocks += [_changes(answer)] if answer.changes else []
    blocks += [Paragraph(f"Assumed: {text}") for text in answer.assumptions]
    return Page(title=f"memory of {answer.experiment}", blocks=tuple(blocks))


def _run(answer: Answer) -> str:
    sizes = ", ".join(f"{name} {size}" for name, size in answer.groups.items())
    layout = f" ({sizes})" if sizes else ""
    order = "" if answer.schedule == "none" else f", {answer.schedule}"
    batches = f"{_many(answer.micro_batches, 'micro batch', 'es')} of {answer.micro_batch_tokens:,} tokens{order}"
    return (
        f"{answer.framework} {answer.library_version}, {_many(answer.ranks, 'rank')} on {_many(answer.nodes, 'node')}"
        f"{layout}; {batches}; {answer.parameters:,} parameters."
    )


def _operations(answer: Answer) -> str:
    """Floating-point operations, with the convention by which they are counted."""
    attention = {"half": "the half that the mask leaves", "whole": "all"}[answer.attention]
    need = f"The model needs {answer.model_flops_per_token / 1e9:,.4g} GFLOP a token: forward and backward, of causal"
    need += f" attention {attention}, without what is recomputed"
    ran = f"{answer.hardware_flops_per_token / 1e9:,.4g} run, with what is recomputed or repeated on several ranks"
    step = f"{answer.model_flops_per_iteration / 1e12:,.4g} TFLOP an iteration"
    return f"{need}; {ran}. That is {step}, {answer.model_flops_per_gpu / 1e12:,.4g} on each rank."


def _verdict(answer: Answer) -> str:
    stage = f"The rank of stage {answer.heaviest} is the heaviest" if len(answer.stages) > 1 else "Each rank is alike"
    margin = sum(one.bytes for one in answer.margin)
    told = f"{stage}: {memory_size(answer.needed)}" + (f" with a margin of {memory_size(margin)}" if margin else "")
    if answer.capacity is None:
        return f"{told}. --gpu MODEL tells whether it fits."
    of = f"of {memory_size(answer.capacity)} on one {answer.device}"
    if answer.fits is None:
        return f"{told}, {of}. Activations are not known: nothing says that it fits."
    spare = memory_size(abs(answer.capacity - answer.needed))
    return f"{told}, {of}. " + (f"It fits: {spare} are left." if answer.fits else f"It does not fit: {spare} too much.")


def _margin(answer: Answer) -> Table:
    rows = tuple(
        (one.name, memory_size(one.bytes), "measured" if one.verified else "unverified", one.why)
        for one in answer.margin
    )
    columns = (Column("margin"), Column("memory", "right"), Column("known by"), Column("what it is"))
    return Table(title="Margin for what only a device has", columns=columns, rows=rows)


def _changes(answer: Answer) -> Table:
    columns = (Column("change"), Column("then", "right"), Column("saves", "right"), Column("fits"), Column("costs"))
    title = "Changes that save memory, the cheapest first"
    return Table(title=title, columns=columns, rows=tuple(_change(one, answer.ranks) for one in answer.changes))


def _change(effect: Effect, ranks: int) -> tuple[str, ...]:
    more = [f"--gpus {effect.ranks}"] if effect.ranks != ranks else []
    words = " ".join([*(f"{name}={value}" for name, value in effect.settings.items()), *more])
    fits = "yes" if effect.fits else "no"
    return words, memory_size(effect.needed), memory_size(effect.saved), fits, effect.cost


def _chart(answer: Answer) -> Bars:
    parts = [
        Part(name=NAMES.get(kind, kind), sizes=tuple(size_of(stage, kind) / _GIB for stage in answer.stages))
        for kind in KINDS
    ]
    margin = sum(one.bytes for one in answer.margin) / _GIB
    parts.append(Part(name="margin (see below)", sizes=(margin,) * len(answer.stages)))
    return Bars(
        title="Memory of a rank, by pipeline stage",
        unit="GiB",
        labels=tuple(f"stage {stage.stage}" for stage in answer.stages),
        parts=tuple(part for part in parts if any(part.sizes)),
        limit=None if answer.capacity is None else answer.capacity / _GIB,
        limit_name=answer.device,
    )


def _many(count: int, what: str, plural: str = "s") -> str:
    return f"{count:,} {what}{plural if count != 1 else ''}"
