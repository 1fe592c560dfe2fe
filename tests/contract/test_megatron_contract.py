"""The Megatron back end keeps its contract."""

from __future__ import annotations

from pathlib import Path

from primus_core.testing import BackendContract


class TestMegatron(BackendContract):
    """With the experiment of the README."""

    plugin = "megatron"
    experiment = Path(__file__).parents[2] / "examples/llama-tiny.yaml"
    ranks = 2
