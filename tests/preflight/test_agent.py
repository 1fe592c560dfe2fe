"""Which accelerators the agent of a node counts, and which its workers measure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_preflight.agent import node as agent
from primus_preflight.meeting import crew
from primus_preflight.performance import options, tokens
from tests.preflight import nodes

NVIDIA = {f"dev/nvidia{number}": "" for number in range(3)}
AMD = {f"sys/class/kfd/kfd/topology/nodes/{number}/properties": "simd_count 1216\n" for number in range(4)}


@pytest.mark.parametrize(
    ("files", "env", "devices"),
    [
        (NVIDIA, {}, [0, 1, 2]),
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "2,0", "HIP_VISIBLE_DEVICES": "1"}, [0, 1]),
        ({"dev/kfd": "", **AMD}, {"HIP_VISIBLE_DEVICES": "3,1,2"}, [0, 1, 2]),
        ({"dev/kfd": "", **AMD}, {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0"}, [0]),
        ({}, {"CUDA_VISIBLE_DEVICES": "0"}, [None]),
    ],
)
def test_workers_are_as_many_as_devices_are_shown(
    files: Mapping[str, str],
    env: Mapping[str, str],
    devices: list[int | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A variable hides some of a node's devices: each of the others has a worker, by the number that torch gives it."""
    started: list[int | None] = []
    monkeypatch.setattr(crew, "Worker", lambda device: started.append(device) or _Idle())
    seen = agent._named(nodes.node(nodes.files(tmp_path, files), env), 0)
    with crew.crew(seen, tokens.tests_named(("gemm",)), options.options_for({}, seen.accelerator, quick=False)):
        assert started == devices
    assert seen.devices == len([device for device in devices if device is not None])


class _Idle:
    def end(self) -> None:
        """There is no process."""
