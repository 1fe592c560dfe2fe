"""Environment settings that do harm are told before a run, with what to set; those that do none are left alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from primus_core.outcome import Finding
from primus_core.plan import Accelerator
from primus_preflight.settings import judging
from primus_preflight.settings.judging import crowded, hidden, judged, rules


def found(env: dict[str, str], accelerator: Accelerator = "cuda", nodes: int = 2) -> list[Finding]:
    return list(judged(env, accelerator, nodes))


HARMFUL = [
    ({"NCCL_ASYNC_ERROR_HANDLING": "1"}, "cuda", "deprecated", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    ({"NCCL_MAX_NRINGS": "4"}, "cuda", "deprecated", "NCCL_MAX_NCHANNELS"),
    ({"NCCL_IB_CUDA_SUPPORT": "1"}, "cuda", "without-effect", "NCCL_NET_GDR_LEVEL"),
    ({"NCCL_IB_TIMEOUT": "0"}, "cuda", "wrong", "1 to 22"),
    ({"NCCL_IB_TIMEOUT": "23"}, "rocm", "wrong", "1 to 22"),
    ({"NCCL_NTHREADS": "100"}, "cuda", "wrong", "Unset"),
    ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "4"}, "cuda", "wrong", "3 is the default"),
    ({"CUDA_VISIBLE_DEVICES": ""}, "cuda", "wrong", "name the devices"),
    ({"HIP_VISIBLE_DEVICES": "-1"}, "rocm", "wrong", "name the devices"),
    (
        {"TORCH_NCCL_BLOCKING_WAIT": "true", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"},
        "cuda",
        "contradicting",
        "TORCH_NCCL_BLOCKING_WAIT",
    ),
    ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0"}, "rocm", "contradicting", "one of them"),
    ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, "rocm", "contradicting", "both alike"),
    ({"NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "8"}, "cuda", "contradicting", "smaller"),
    (
        {"PYTORCH_ALLOC_CONF": "a:1", "PYTORCH_HIP_ALLOC_CONF": "a:2"},
        "rocm",
        "contradicting",
        "PYTORCH_ALLOC_CONF alone",
    ),
    ({"NCCL_MIN_NCHANNELS": "32", "NCCL_MAX_NCHANNELS": "16"}, "rocm", "contradicting", "both"),
    ({"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "4"}, "cuda", "contradicting", "both"),
    ({"NCCL_SOCKET_NTHREADS": "17"}, "cuda", "wrong", "1 to 16"),
    ({"NCCL_CROSS_NIC": "3"}, "cuda", "wrong", "2 is the default"),
    ({"NCCL_DEBUG": "DEBUG"}, "rocm", "without-effect", "NCCL_DEBUG=WARN"),
    ({"NCCL_CHECK_POINTERS": "1"}, "cuda", "slow", "Unset"),
    ({"TORCH_CUDA_SANITIZER": "0"}, "cuda", "slow", "Unset"),
    ({"CUDA_CACHE_DISABLE": "1"}, "cuda", "slow", "Unset"),
    ({"NCCL_PROTO": "Simple,LL128"}, "cuda", "dangerous", "NCCL_PROTO"),
    ({"TORCH_NCCL_ENABLE_MONITORING": "0"}, "cuda", "dangerous", "on by default"),
    ({"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}, "rocm", "dangerous", "Unset"),
    ({"NCCL_P2P_DISABLE": "1"}, "cuda", "slow", "Unset"),
    ({"CUDA_LAUNCH_BLOCKING": "1"}, "cuda", "slow", "Unset"),
    ({"AMD_SERIALIZE_KERNEL": "3"}, "rocm", "slow", "Unset"),
    ({"NCCL_IB_DISABLE": "1"}, "cuda", "slow", "Unset"),
    ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "cpu", "slow", "INFO"),
]


@pytest.mark.parametrize(("env", "accelerator", "kind", "remedy"), HARMFUL)
def test_harm_is_told_with_what_to_set(env: dict[str, str], accelerator: Accelerator, kind: str, remedy: str) -> None:
    """One finding names the settings and their values, why, and what to do."""
    (finding,) = found(env, accelerator)
    assert finding.check == f"settings.{kind}"
    assert all(f"{name}={value}" in finding.summary for name, value in env.items())
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    "env",
    [
        {"NCCL_IB_TIMEOUT": "22"},
        {"NCCL_PROTO": "^LL128"},
        {"NCCL_PROTO": "Simple"},
        {"NCCL_NTHREADS": "512"},
        {"CUDA_LAUNCH_BLOCKING": "0"},
        {"CUDA_VISIBLE_DEVICES": "0,1"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"},
        {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        {"NCCL_SOCKET_NTHREADS": "8", "NCCL_NSOCKS_PERTHREAD": "8"},
        {"NCCL_DEBUG": "INFO", "TORCH_DISTRIBUTED_DEBUG": "INFO"},
        {"NCCL_MIN_NCHANNELS": "16", "NCCL_MAX_NCHANNELS": "16", "NCCL_SOCKET_NTHREADS": "16", "NCCL_CROSS_NIC": "0"},
        {"NCCL_DEBUG": "", "NCCL_CHECK_POINTERS": "0", "CUDA_CACHE_DISABLE": "0"},
        {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"},  # on CUDA the first one is nobody's
    ],
)
def test_harmless_settings_are_left_alone(env: dict[str, str]) -> None:
    """Values within their range, and both of a pair that agree."""
    assert found(env) == []


def test_what_matters_on_several_nodes_alone() -> None:
    """On one node RDMA is not missed."""
    assert found({"NCCL_IB_DISABLE": "1"}, nodes=1) == []


def test_accelerators_have_settings_of_their_own() -> None:
    """On CPUs NCCL's settings do nothing, on CUDA those of ROCm."""
    assert found({"NCCL_P2P_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}, "cpu") == []
    assert found({"HSA_OVERRIDE_GFX_VERSION": "9.4.2"}, "cuda") == []


def test_the_table_is_whole() -> None:
    """Every row has a source, expressions that compile, is about at least one variable, and none is twice."""
    table = json.loads((Path(judging.__file__).parent / "table.json").read_text(encoding="utf-8"))
    assert {row["source"] for row in table["rows"]} == set(table["sources"])
    assert len({(rule.kind, tuple(sorted(rule.holds.items())), rule.names) for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule.names
        assert rule.set.endswith(".")
        for pattern in (*rule.holds.values(), *rule.fails.values()):
            re.compile(pattern)


def test_the_documentation_has_every_variable() -> None:
    """`docs/preflight-checks.md` lists what is judged."""
    page = (Path(__file__).parents[2] / "docs/preflight-checks.md").read_text(encoding="utf-8")
    assert [name for rule in rules() for name in rule.names if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("value", "ranks", "told"), [("4", 2, True), ("2", 2, False), ("1", 8, False), ("", 2, False), ("all", 2, False)]
)
def test_threads_of_openmp_beyond_the_cpus(value: str, ranks: int, told: bool) -> None:
    """More threads than CPUs slow a run down; one for each rank is the least."""
    findings = list(crowded({"OMP_NUM_THREADS": value}, ranks, cpus=4))
    assert bool(findings) is told


def test_fewer_devices_than_ranks() -> None:
    """A variable that hides devices which the ranks are to have ends the run before its start."""
    (finding,) = hidden({"CUDA_VISIBLE_DEVICES": "0,1"}, "cuda", ranks=8)
    assert (finding.severity, finding.exit_code) == ("error", 2)
    assert "--nproc 2" in finding.remedy
    assert list(hidden({"CUDA_VISIBLE_DEVICES": "0,1"}, "cuda", ranks=2)) == []
    (cut,) = hidden({"HIP_VISIBLE_DEVICES": "0,1,-1,3"}, "rocm", ranks=4)
    assert "shows 2 devices to 4 ranks" in cut.summary
    assert list(hidden({"CUDA_VISIBLE_DEVICES": "0"}, "cpu", ranks=8)) == []
