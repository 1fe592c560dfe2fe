"""The tables of `primus projection memory` with a line for each stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.cli.main import main
from primus_core.cli.projection.answer import StageFigures
from primus_core.cli.projection.stages import tables_of
from primus_core.render.tables import Table

DEEPSEEK = Path(__file__).parents[2] / "examples/megatron/configs/MI300X/deepseek_v3-BF16-pretrain.yaml"
GIB = 1 << 30


def stage(number: int, weights: int, activations: int) -> StageFigures:
    none = dict.fromkeys(("gradients", "main_weights", "moments", "buffers", "padding", "parameters"), 0)
    return StageFigures(
        stage=number,
        blocks={"layer": 2},
        bytes=(weights + activations) * GIB,
        weights=weights * GIB,
        activations=activations * GIB,
        at="layer: mlp, forward",
        parts={"mlp": activations * GIB},
        weight_parts={"attention": GIB, "mlp": (weights - 1) * GIB},
        **none,
    )


def lines(table: Table) -> list[str]:
    return [row[0] for row in table.rows]


def test_equal_neighbours_share_a_line_and_all_that_differs_is_shown() -> None:
    """Of sixteen stages, those are joined that have the same figures in a table; none is left out."""
    stages = [stage(number, 9 if number == 0 else 5, 4 if number < 9 else 16 - number) for number in range(16)]
    memory, weights, activations = tables_of(stages, heaviest=0)
    assert lines(memory) == ["0", "1-8", "9", "10", "11", "12", "13", "14", "15"]
    assert lines(weights) == ["0", "1-15"]
    assert lines(activations) == ["0-8", "9", "10", "11", "12", "13", "14", "15"]
    assert [row[0] for row in memory.rows if "*" in " ".join(row)] == ["0"]


def test_the_heaviest_has_a_line_of_its_own() -> None:
    """Where equal stages are the heaviest, the one that the verdict names is marked."""
    memory = next(tables_of([stage(number, 5, 4) for number in range(4)], heaviest=0))
    assert lines(memory) == ["0", "1-3"]
    assert memory.rows[0][3] == "9.0 GiB *"


def test_weights_and_activations_are_told_by_component_for_all_stages(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3 in sixteen stages: experts, attention, norms and ends of the model, on each stage that has any."""
    assert main(["projection", "memory", "--config", str(DEEPSEEK)]) == 0
    text = capsys.readouterr().out
    weights = text.split("Its weights, by component\n")[1].split("\n\n")[0].splitlines()
    assert {"experts", "mlp", "embedding", "head", "attention", "router", "norm"} <= set(weights[0].split())
    assert [line.split()[0] for line in weights[1:]] == ["0", "1-14", "15"]
    activations = text.split("What comes and goes in a step, by component")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in activations[2:]] == [str(number) for number in range(16)]
