"""Peaks of accelerators by the names that devices report."""

from __future__ import annotations

import pytest

from primus_core.hardware import accelerator_models, find_model, peak_flops


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI355X", "MI355X"),
        ("AMD Instinct MI250X / MI250", "MI250X"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
    ],
)
def test_devices_are_recognized(name: str, model: str) -> None:
    """A device's reported name finds its model, and no other one's."""
    found = find_model(name)
    assert found is not None
    assert found.model == model


@pytest.mark.parametrize("name", ["cpu", "", "NVIDIA H100 PCIe", "NVIDIA GeForce RTX 4090"])
def test_unknown_devices_have_no_peak(name: str) -> None:
    """A device that is not in the file has no peak; its utilization stays unknown."""
    assert peak_flops(name, "bf16") is None


def test_figures_are_plausible_and_have_a_source() -> None:
    """Each figure is in TFLOP/s, and says where it is from."""
    for model in accelerator_models():
        assert 10 < model.fp32_tflops < model.bf16_tflops < 5000
        assert model.source
        assert model.fp8_tflops is None or 1.9 < model.fp8_tflops / model.bf16_tflops < 2.1
        assert model.fp4_tflops is None or model.fp8_tflops is None or 1.9 < model.fp4_tflops / model.fp8_tflops < 2.1
        assert 1000 < model.memory_gbs < 10_000
        assert model.host_gbs < model.link_gbs < model.memory_gbs
    assert peak_flops("AMD Instinct MI300X", "bf16") == pytest.approx(1.3074e15)
