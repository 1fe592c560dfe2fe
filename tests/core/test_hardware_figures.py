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
    """Bandwidth of memory and dense peaks of one device, to the digits that are printed."""
    sheet, model = SHEETS[name], next(model for model in accelerator_models() if model.model == name)
    told = (model.memory_gbs / 1e3, model.bf16_tflops, model.fp8_tflops, model.fp4_tflops)
    printed = (sheet.memory_tbs, sheet.bf16, sheet.fp8, sheet.fp4)
    for figure, of_all in zip(told, printed, strict=True):
        assert figure == (None if of_all is None else pytest.approx(of_all / sheet.devices, rel=1e-3))


@pytest.mark.parametrize("name", SHEETS)
def test_memory_is_what_a_driver_leaves_of_the_data_sheets(name: str) -> None:
    """Less than the printed gigabytes, read as GiB, by what AMD's driver or NVIDIA's and error correction keep."""
    sheet, model = SHEETS[name], next(model for model in accelerator_models() if model.model == name)
    kept = sheet.memory_gb / sheet.devices - model.memory_gib
    assert kept == pytest.approx(0.02) if sheet.source.startswith("AMD") else 0.8 < kept < 2


def test_memory_is_what_pytorch_has_told_of_devices() -> None:
    """Capacities in public messages of its allocator: no more than any of them."""
    told = {"A100": (79.14, 79.25), "H100": (79.11, 79.65), "H200": (139.72, 139.80, 139.81)}
    told |= {"B200": (178.35, 178.36), "GB200": (184.31,), "MI250X": (63.98,), "MI300X": (191.98,), "MI355X": (287.98,)}
    assert {model.model: model.memory_gib for model in accelerator_models() if model.model in told} == {
        name: min(sizes) for name, sizes in told.items()
    }
