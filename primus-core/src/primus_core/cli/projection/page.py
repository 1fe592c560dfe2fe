"""The page that shows a projection: the text of a terminal, and HTML."""

from __future__ import annotations

from collections.abc import Iterator

from primus_core.cli.projection.answer import Answer, StageFigures
from primus_core.projection.advice import Effect
from primus_core.quantities import memory_size
from primus_core.render.bars import Bars, Part
from primus_core.render.pages import Block, Page, Paragraph
from primus_core.render.tables import Column, Table

_GIB = 1 << 30
_KINDS = ("weights", "gradients", "main_weights", "moments", "buffers", "padding", "activations")
_NAMES = {"main_weights": "main weights", "moments": "optimizer state"}
_MOST_STAGES = 8
"""Columns of a table in a terminal; of more stages, those that differ are shown."""


def projection_page(answer: Answer) -> Page:
    """All that is told, from top to bottom."""
    blocks: list[Block] = [Paragraph(_run(answer)), Paragraph(_verdict(answer)), _stages(answer), _chart(answer)]
    blocks += [table for table in (_activations(answer), _margin(answer)) if table.rows]
    blocks += [Paragraph(answer.sought)] if answer.sought else []
    blocks += [_changes(answer)] if answer.changes else []
    blocks += [Paragraph(f"Assumed: {text}") for text in answer.assumptions]
    return Page(title=f"memory of {answer.experiment}", blocks=tuple(blocks))


def _run(answer: Answer) -> str:
    sizes = ", ".join(f"{name} {size}" for name, size in answer.groups.items())
    layout = f" ({sizes})" if sizes else ""
    order = "" if answer.schedule == "none" else f", {answer.schedule}"
    batches = f"{_many(answer.micro_batches, 'micro batch', 'es')} of {answer.micro_batch_tokens:,} tokens{order}"
    flops = f"{answer.model_flops_per_token / 1e9:.4g} GFLOP a token"
    if answer.hardware_flops_per_token > answer.model_flops_per_token:
        flops += f" ({answer.hardware_flops_per_token / 1e9:.4g} with what runs again)"
    return (
        f"{answer.framework} {answer.library_version}, {_many(answer.ranks, 'rank')} on {_many(answer.nodes, 'node')}"
        f"{layout}; {batches}; {answer.parameters:,} parameters; {flops}."
    )


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


def _stages(answer: Answer) -> Table:
    shown = list(_shown(answer))
    columns = (Column("component"), *(Column(f"stage {stage.stage}", "right") for stage in shown))
    rows = [(_NAMES.get(kind, kind), *(memory_size(size_of(stage, kind)) for stage in shown)) for kind in _KINDS]
    rows = [row for row, kind in zip(rows, _KINDS, strict=True) if any(size_of(stage, kind) for stage in shown)]
    heaviest = (f"{memory_size(stage.bytes)}{' *' * (stage.stage == answer.heaviest)}" for stage in shown)
    blocks = (", ".join(f"{count} {name}" for name, count in stage.blocks.items()) for stage in shown)
    rows += [("together", *heaviest), ("parameters", *(f"{stage.parameters:,}" for stage in shown)), ("holds", *blocks)]
    left = len(answer.stages) - len(shown)
    more = f"; {left} more stages need no more than these" if left else ""
    return Table(title=f"Memory of a rank, by stage (* the heaviest){more}", columns=columns, rows=tuple(rows))


def _shown(answer: Answer) -> Iterator[StageFigures]:
    """All, or the first, the last, the heaviest and those that need most beside it."""
    if len(answer.stages) <= _MOST_STAGES:
        yield from answer.stages
        return
    ends = {0, len(answer.stages) - 1, answer.heaviest}
    by_size = sorted(answer.stages, key=lambda stage: -stage.bytes)
    chosen = ends | {stage.stage for stage in by_size[: _MOST_STAGES - len(ends)]}
    yield from (stage for stage in answer.stages if stage.stage in chosen)


def size_of(stage: StageFigures, kind: str) -> int:
    """Bytes of one row of the table."""
    return int(getattr(stage, kind))


def _activations(answer: Answer) -> Table:
    stage = answer.stages[answer.heaviest]
    rows = tuple((name, memory_size(size)) for name, size in stage.parts.items() if size)
    title = f"What comes and goes on stage {stage.stage}, at its most: {stage.at}"
    return Table(title=title, columns=(Column("component"), Column("memory", "right")), rows=rows)


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
        Part(name=_NAMES.get(kind, kind), sizes=tuple(size_of(stage, kind) / _GIB for stage in answer.stages))
        for kind in _KINDS
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
