"""Tables with a line for each pipeline stage: its memory, and of what its weights and activations are.

Stages that follow each other and have the same line share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from primus_core.cli.projection.answer import StageFigures
from primus_core.quantities import memory_size
from primus_core.render.tables import Column, Table

KINDS = ("weights", "gradients", "main_weights", "moments", "buffers", "padding", "activations")
NAMES = {"main_weights": "main weights", "moments": "optimizer state"}


def tables_of(stages: Sequence[StageFigures], heaviest: int) -> Iterator[Table]:
    """Of all stages, without tables that have nothing to tell."""
    yield _memory(stages, heaviest)
    yield from _by_component("Its weights, by component", stages, lambda stage: stage.weight_parts)
    title = "What comes and goes in a step, by component, when most does"
    yield from _by_component(title, stages, lambda stage: stage.parts, lambda stage: stage.at)


def size_of(stage: StageFigures, kind: str) -> int:
    """Bytes of one kind."""
    return int(getattr(stage, kind))


def _memory(stages: Sequence[StageFigures], heaviest: int) -> Table:
    kinds = [kind for kind in KINDS if any(size_of(stage, kind) for stage in stages)]
    names = [*(NAMES.get(kind, kind) for kind in kinds), "together", "parameters"]

    def cells(stage: StageFigures) -> tuple[str, ...]:
        together = memory_size(stage.bytes) + (" *" if stage.stage == heaviest else "")
        blocks = ", ".join(f"{count} {name}" for name, count in stage.blocks.items())
        return (*(memory_size(size_of(stage, kind)) for kind in kinds), together, f"{stage.parameters:,}", blocks)

    columns = (Column("stage"), *(Column(name, "right") for name in names), Column("holds"))
    return Table(title="Memory of a rank, by stage (* the heaviest)", columns=columns, rows=_rows(stages, cells))


def _by_component(
    title: str,
    stages: Sequence[StageFigures],
    parts_of: Callable[[StageFigures], Mapping[str, int]],
    at: Callable[[StageFigures], str] | None = None,
) -> Iterator[Table]:
    """A column for each component, the largest first, and one for what runs then; nothing without components."""
    most: dict[str, int] = {}
    for stage in stages:
        most |= {name: max(size, most.get(name, 0)) for name, size in parts_of(stage).items()}
    names = sorted(filter(most.get, most), key=lambda name: -most[name])

    def cells(stage: StageFigures) -> tuple[str, ...]:
        parts = parts_of(stage)
        sizes = (memory_size(parts[name]) if parts.get(name) else "" for name in names)
        return (*sizes, *([at(stage)] if at else []))

    columns = (Column("stage"), *(Column(name, "right") for name in names), *([Column("while")] if at else []))
    if names:
        yield Table(title=title, columns=columns, rows=_rows(stages, cells))


def _rows(
    stages: Sequence[StageFigures], cells: Callable[[StageFigures], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """One for each stage, or for several with the same cells: ``1-8``."""
    rows = []
    for line, alike in groupby(stages, key=cells):
        numbers = [stage.stage for stage in alike]
        name = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        rows.append((name, *line))
    return tuple(rows)
