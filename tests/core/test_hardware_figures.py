"""Figures of accelerators against what their makers' data sheets print, each for the unit that the sheet is about."""

from __future__ import annotations

import pytest
from attrs import frozen

from primus_core.hardware import accelerator_models


@frozen
class Sheet:
    """What a data sheet prints of so many devices together."""

    source: str
    devices: int
    memory_gb: float
    memory_tbs: float
    """1e12 bytes a second."""
    bf16: float
    """Dense, TFLOP/s of matrices; so are the next ones."""
    fp8: float | None = None
    fp4: float | None = None


SHEETS = {
    "MI250X": Sheet("AMD Instinct MI250X data sheet (2021): a package of two dies", 2, 128, 3.2768, 383.0),
    "MI300X": Sheet("AMD Instinct MI300X data sheet (2023)", 1, 192, 5.325, 1307.4, 2614.9),
    "MI325X": Sheet("AMD Instinct MI325X data sheet (2024)", 1, 256, 6.0, 1307.4, 2614.9),
    "MI350X": Sheet("AMD Instinct MI350X data sheet (2025)", 1, 288, 8.0, 2306.9, 4613.7, 9227.5),
    "MI355X": Sheet("AMD Instinct MI355X data sheet (2025)", 1, 288, 8.0, 2516.6, 5033.2, 10066.3),
    "A100": Sheet("NVIDIA A100 data sheet (2021), 80GB SXM", 1, 80, 2.039, 312),
    "H100": Sheet("NVIDIA H100 data sheet, SXM: half of what it prints with sparsity", 1, 80, 3.35, 1979 / 2, 3958 / 2),
    "H200": Sheet("NVIDIA H200 data sheet, SXM: half of what it prints with sparsity", 1, 141, 4.8, 1979 / 2, 3958 / 2),
    "B200": Sheet(
        "NVIDIA DGX B200 data sheet, eight devices: half of what it prints with sparsity; BF16 is half of FP8",
        *(8, 1440, 64.0, 72e3 / 4, 72e3 / 2, 144e3 / 2),
    ),
    "GB200": Sheet(
        "NVIDIA GB200 NVL72 page, 72 devices: half of what it prints with sparsity",
        *(72, 13.4e3, 576.0, 360e3 / 2, 720e3 / 2, 1440e3 / 2),
    ),
}


def test_every_device_of_the_list_has_a_data_sheet() -> None:
    """The models that `--gpu` knows are these ten, each with its source."""
    assert [model.model for model in accelerator_models()] == list(SHEETS)
    assert all(
        sheet.source and model.source for model, sheet in zip(accelerator_models(), SHEETS.values(), strict=True)
    )


@pytest.mark.parametrize("name", SHEETS)
def test_figures_are_those_of_the_data_sheet(name: str) -> None:
    """Memory, its bandwidth and dense peaks of one device, to the digits that are printed."""
    sheet, model = SHEETS[name], next(model for model in accelerator_models() if model.model == name)
    told = (model.memory_gib, model.memory_gbs / 1e3, model.bf16_tflops, model.fp8_tflops, model.fp4_tflops)
    printed = (sheet.memory_gb, sheet.memory_tbs, sheet.bf16, sheet.fp8, sheet.fp4)
    for figure, of_all in zip(told, printed, strict=True):
        assert figure == (None if of_all is None else pytest.approx(of_all / sheet.devices, rel=1e-3))
