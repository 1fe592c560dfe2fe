"""Looks at accelerators read what real tools print, and tell a sick device from a healthy one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from primus_core.plan import Accelerator
from primus_preflight.agent.looked import ProgramError
from primus_preflight.agent.probing import probe_all
from primus_preflight.probes import gpu
from primus_preflight.probes.gpu import amd, device, nvidia, sysfs
from primus_preflight.probes.gpu.node import badly_joined
from primus_preflight.settings.visibility import visible
from tests.preflight.nodes import files, node, recorded

XML = recorded("nvidia-smi-l4.xml")
AMD_SMI = {
    "amd-smi static": recorded("amd-smi-static.json"),
    "amd-smi metric": recorded("amd-smi-metric.json"),
    "amd-smi bad-pages": recorded("amd-smi-bad-pages.json"),
    "amd-smi topology": recorded("amd-smi-topology.json"),
}


def nvidia_node(root: Path, count: int = 2) -> Path:
    tree = {}
    for number in range(count):
        address = f"0000:0{number + 1}:00.0"
        tree[f"dev/nvidia{number}"] = ""
        tree[f"proc/driver/nvidia/gpus/{address}/information"] = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   0\n"
        tree[f"sys/bus/pci/devices/{address}/numa_node"] = f"{number}\n"
    return files(root, {**tree, "sys/module/nvidia/version": "555.42.06\n"})


def amd_node(root: Path, count: int = 1) -> Path:
    tree = {"dev/kfd": "", "sys/module/amdgpu/version": "6.8.5\n"}
    for number in range(count):
        folder = f"sys/class/kfd/kfd/topology/nodes/{number + 1}"
        tree[f"{folder}/properties"] = f"simd_count 1216\ndevice_id 29857\ndomain 0\nlocation_id {number + 5 << 8}\n"
    return files(root, tree)


def test_a_node_without_accelerators(tmp_path: Path) -> None:
    """The look says so, and there is none at a device."""
    (probe,) = probe_all(gpu.looks(node(tmp_path)))
    assert (probe.name, probe.status) == ("accelerators", "unavailable")
    assert probe.error == "no accelerator is here: neither /dev/kfd nor /dev/nvidia0 has one"


def test_a_healthy_node_of_nvidia(tmp_path: Path) -> None:
    """Facts of the node and of each device are told; nothing is wrong."""
    about = node(
        nvidia_node(tmp_path), programs={"nvidia-smi topo": recorded("nvidia-smi-topo.txt"), "nvidia-smi": XML}
    )
    every, first, second = probe_all(gpu.looks(about))
    assert [probe.error for probe in (every, first, second)] == ["", "", ""]
    assert (first.device, second.device) == (0, 1)
    assert every.facts["models"] == ["H100"]
    assert every.facts["driver"] == "555.42.06"
    assert every.facts["numa_nodes"] == [0, 1]
    assert dict(first.facts) == {
        "model": "NVIDIA L4",
        "address": "0000:01:00.0",
        "driver": "555.42.06",
        "firmware": "95.04.29.00.06",
        "memory_bytes": 23034 << 20,
        "memory_used_bytes": 1 << 20,
        "ecc": True,
        "uncorrected_errors": 0,
        "corrected_errors": 0,
        "retired_pages": 0,
        "waits_for_reset": False,
        "repair_failed": False,
        "temperature_c": 45.0,
        "throttled": [],
        "power_limit_w": 72.0,
        "power_default_w": 72.0,
        "link_width": 16.0,
    }
    assert [finding for probe in (every, first, second) for finding in probe.findings] == []


@pytest.mark.parametrize(
    ("healthy", "sick", "check", "severity"),
    [
        ("<dram_uncorrectable>0", "<dram_uncorrectable>3", "gpu.ecc", "error"),
        ("parity>0</sram_uncorrectable_parity", "parity>1</sram_uncorrectable_parity", "gpu.ecc", "error"),
        ("failure>No", "failure>Yes", "gpu.repair", "error"),
        ("row_pending>No", "row_pending>Yes", "gpu.reset", "warning"),
        ("<current_ecc>Enabled", "<current_ecc>Disabled", "gpu.ecc-off", "warning"),
        ("<used>1 MiB", "<used>20000 MiB", "gpu.memory-used", "warning"),
        ("hw_thermal_slowdown>Not Active", "hw_thermal_slowdown>Active", "gpu.throttled", "warning"),
        ("<gpu_temp>45 C", "<gpu_temp>97 C", "gpu.hot", "warning"),
        ("<current_power_limit>72", "<current_power_limit>50", "gpu.power-limit", "warning"),
    ],
)
def test_a_sick_device_of_nvidia(healthy: str, sick: str, check: str, severity: str) -> None:
    """Each fault that the tool tells is one finding; idling, which lowers clocks too, is none."""
    (finding,) = device.judged(nvidia.parse_query(XML.replace(healthy, sick, 1)))
    assert (finding.check, finding.severity) == (check, severity)


def test_an_older_driver_of_nvidia() -> None:
    """Before 535 it speaks of throttling, has no rows to remap, and another name for limits of power."""
    older = XML.replace("clocks_event_reason", "clocks_throttle_reason").replace("gpu_power_readings", "power_readings")
    older = older.replace("current_power_limit", "enforced_power_limit")
    older = older.replace("hw_slowdown>Not", "hw_slowdown>").replace("> Active", ">Active")
    older = older.replace("<remapped_row", "<gone").replace("</remapped_row", "</gone")
    older = older.replace("<pending_retirement>N/A", "<pending_retirement>Yes")
    facts = nvidia.parse_query(older.replace("<retired_count>N/A", "<retired_count>2"))
    assert facts["throttled"] == ["hw slowdown"]
    assert facts["power_limit_w"] == 72.0
    assert facts["retired_pages"] == 4
    assert facts["waits_for_reset"] is True


@pytest.mark.parametrize("answer", ["No devices were found\n", "<nvidia_smi_log></nvidia_smi_log>", ""])
def test_no_answer_of_nvidia_is_an_error(answer: str, tmp_path: Path) -> None:
    """A tool that ends well and tells of no device is no pass."""
    about = node(nvidia_node(tmp_path, count=1), programs={"nvidia-smi": answer})
    told = probe_all(gpu.looks(about))[1]
    assert told.status == "error"
    assert told.error.startswith("ProgramError: nvidia-smi")


def test_a_container_without_nvidias_tool(tmp_path: Path) -> None:
    """The driver's files tell the model at least."""
    first = probe_all(gpu.looks(node(nvidia_node(tmp_path, count=1))))[1]
    assert dict(first.facts) == {"model": "NVIDIA H100 80GB HBM3", "address": "0000:01:00.0"}


def test_a_healthy_node_of_amd(tmp_path: Path) -> None:
    """amd-smi's answers, in which MB are MiB, give the same facts."""
    every, first = probe_all(gpu.looks(node(amd_node(tmp_path), programs=AMD_SMI)))
    assert every.facts["models"] == ["MI300X"]
    assert every.facts["addresses"] == ["0000:05:00.0"]
    assert every.facts["links"] == {"0-1": "XGMI"}
    assert dict(first.facts) == {
        "model": "AMD Instinct MI300X",
        "address": "0000:83:00.0",
        "driver": "6.19.14",
        "firmware": "022.040.003.042.000001",
        "memory_bytes": 206141652992,
        "memory_used_bytes": 283 << 20,
        "uncorrected_errors": 0,
        "corrected_errors": 0,
        "retired_pages": 0,
        "waits_for_reset": False,
        "temperature_c": 37.0,
        "slowdown_c": 100.0,
        "throttled": [],
        "power_limit_w": 750.0,
        "power_default_w": 750.0,
        "link_width": 16.0,
        "partition": "SPX",
    }
    assert (every.findings, first.findings) == ((), ())


@pytest.mark.parametrize(
    ("healthy", "sick", "check"),
    [
        ('"total_uncorrectable_count": 0', '"total_uncorrectable_count": 2', "gpu.ecc"),
        ('"hbm_thermal_violation_status": "NOT ACTIVE"', '"hbm_thermal_violation_status": "ACTIVE"', "gpu.throttled"),
        ('"value": 37', '"value": 99', "gpu.hot"),
        ('"value": 283', '"value": 60000', "gpu.memory-used"),
    ],
)
def test_a_sick_device_of_amd(healthy: str, sick: str, check: str) -> None:
    """Each fault is one finding."""
    metric = amd.only(recorded("amd-smi-metric.json").replace(healthy, sick))
    facts = amd.parse_amd_smi(amd.only(recorded("amd-smi-static.json")), metric, {})
    assert [finding.check for finding in device.judged(facts)] == [check]


def test_bad_pages_of_amd() -> None:
    """They are counted where they are listed; those that wait want a reset."""
    pages = {"retired": [{"page_address": "0x1", "page_size": 4096, "status": "RESERVED"}] * 3, "pending": [{}]}
    facts = amd.parse_amd_smi({}, {}, pages)
    assert (facts["retired_pages"], facts["waits_for_reset"]) == (3, True)


def test_rocm_smi_where_amd_smi_is_missing(tmp_path: Path) -> None:
    """Its text numbers are numbers."""
    programs = {"rocm-smi --showtopotype": recorded("rocm-smi-topotype.json"), "rocm-smi": recorded("rocm-smi.json")}
    every, first = probe_all(gpu.looks(node(amd_node(tmp_path), programs=programs)))
    links = every.facts["links"]
    assert isinstance(links, dict)
    assert len(links) == 6
    assert first.facts["model"] == "AMD Instinct MI300X"
    assert (first.facts["memory_bytes"], first.facts["temperature_c"]) == (206141652992, 35.0)
    assert first.facts["driver"] == "6.8.5"


def test_rocm_smi_that_fails_well_is_an_error() -> None:
    """It ends with 0 and prints nothing of the device where the driver is not loaded."""
    with pytest.raises(ProgramError, match="told nothing of device 0"):
        amd.parse_rocm_smi("{}", 0)
    with pytest.raises(ProgramError, match="no JSON"):
        amd.parse_rocm_smi("Driver not initialized (amdgpu not found in modules)", 0)


def test_files_of_amdgpu_where_no_tool_is_installed(tmp_path: Path) -> None:
    """The kernel's driver tells memory, errors and temperature itself."""
    folder = "sys/bus/pci/devices/0000:05:00.0"
    tree = {
        f"{folder}/mem_info_vram_total": "206141652992\n",
        f"{folder}/ras/umc_err_count": "ue: 1\nce: 7\n",
        f"{folder}/ras/gfx_err_count": "ue: 0\nce: 1\n",
        f"{folder}/hwmon/hwmon4/temp1_label": "edge\n",
        f"{folder}/hwmon/hwmon4/temp1_input": "30000\n",
        f"{folder}/hwmon/hwmon4/temp2_label": "junction\n",
        f"{folder}/hwmon/hwmon4/temp2_input": "41500\n",
    }
    first = probe_all(gpu.looks(node(files(amd_node(tmp_path), tree))))[1]
    assert first.facts["memory_bytes"] == 206141652992
    assert (first.facts["uncorrected_errors"], first.facts["corrected_errors"]) == (1, 8)
    assert first.facts["temperature_c"] == 41.5
    assert [finding.check for finding in first.findings] == ["gpu.ecc"]
    assert sysfs.error_counts("") == {}


def test_links_of_both_vendors() -> None:
    """Every pair of devices has its kind of link, in each form of the tools' answers; cards of the network are none."""
    assert nvidia.parse_topology(recorded("nvidia-smi-topo.txt")) == {
        (first, second): "NV18" for first in range(4) for second in range(first + 1, 4)
    }
    assert amd.parse_topology(recorded("amd-smi-topology.json")) == {(0, 1): "XGMI"}
    assert amd.parse_topology(recorded("amd-smi-topology-6.1.0.json")) == {(0, 1): "PCIE"}


def test_a_device_without_its_fast_links_is_named() -> None:
    """One of eight that reaches the others over PCIe is; a host whose pairs differ by design is left alone."""
    pairs = [(first, second) for first in range(8) for second in range(first + 1, 8)]
    joined = {pair: "SYS" if 5 in pair else "NV18" for pair in pairs}
    (finding,) = badly_joined(joined)
    assert finding.summary == "device 5 lacks the fast link that the others have"
    mesh = {pair: ("NV1", "NV2", "SYS")[sum(pair) % 3] for pair in pairs}
    assert list(badly_joined(mesh)) == []
    assert list(badly_joined({pair: "PIX" if pair[0] < 4 else "SYS" for pair in pairs})) == []


def test_an_accelerator_without_a_driver_is_named(tmp_path: Path) -> None:
    """It is on the bus, and no module has taken it."""
    folder = "sys/bus/pci/devices/0000:05:00.0"
    tree = {f"{folder}/class": "0x120000\n", f"{folder}/vendor": "0x1002\n"}
    (probe,) = probe_all(gpu.looks(node(files(tmp_path, tree))))
    assert [(finding.check, finding.severity) for finding in probe.findings] == [("gpu.no-driver", "error")]
    (tmp_path / folder / "driver").symlink_to("../../../../bus/pci/drivers/amdgpu")
    (probe,) = probe_all(gpu.looks(node(tmp_path)))
    assert probe.status == "unavailable"


def test_models_that_differ_in_a_node(tmp_path: Path) -> None:
    """A mixed node is an error that names the models."""
    path = "proc/driver/nvidia/gpus/0000:02:00.0/information"
    root = files(nvidia_node(tmp_path), {path: "Model: \t NVIDIA H200\n"})
    every = probe_all(gpu.looks(node(root)))[0]
    assert [finding.check for finding in every.findings] == ["gpu.mixed"]
    assert "H100, H200" in every.findings[0].summary


@pytest.mark.parametrize(
    ("kind", "env", "expected"),
    [
        ("cuda", {}, (0, 1, 2, 3)),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "2,0"}, (2, 0)),
        ("cuda", {"CUDA_VISIBLE_DEVICES": ""}, ()),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-c5533cd4,GPU-5a60059e"}, (0, 1, 2, 3)),
        ("cuda", {"HIP_VISIBLE_DEVICES": "1"}, (0, 1, 2, 3)),
        ("rocm", {"HIP_VISIBLE_DEVICES": "1,3"}, (1, 3)),
        ("rocm", {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, (3,)),
        ("rocm", {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, (1,)),
    ],
)
def test_devices_that_a_process_sees(kind: Accelerator, env: dict[str, str], expected: tuple[int, ...]) -> None:
    """By each vendor's variables; ROCm's second one counts among what the first has left."""
    assert visible(env, kind, 4) == expected


def test_hidden_devices_are_not_looked_at(tmp_path: Path) -> None:
    """A look at a device is one that ranks would see, under their number."""
    about = node(nvidia_node(tmp_path), env={"CUDA_VISIBLE_DEVICES": "1"}, programs={"nvidia-smi -q -x -i 1": XML})
    every, first = probe_all(gpu.looks(about))
    assert (every.facts["count"], every.facts["visible"], first.device, first.status) == (2, 1, 0, "ok")


def test_a_warning_before_an_answer_is_passed_over() -> None:
    """amd-smi may print a line of advice first."""
    answer = "User is not in the render group.\n" + json.dumps({"gpu_data": [{"gpu": 0}]})
    assert amd.entries(answer) == [{"gpu": 0}]
