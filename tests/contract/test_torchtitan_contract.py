"""The TorchTitan back end keeps its contract."""

from __future__ import annotations

from pathlib import Path

from primus_core.testing import BackendContract


class TestTorchTitan(BackendContract):
    """With the example that differs from Megatron's in the framework only."""

    plugin = "torchtitan"
    experiment = Path(__file__).parents[2] / "examples/torchtitan/llama-tiny.yaml"
    ranks = 2
