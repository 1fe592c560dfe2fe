"""NVIDIA's accelerators as nvidia-smi and the driver's files tell of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element, ParseError

from primus_core.experiment import Value
from primus_preflight.agent.looked import Looked, ProgramError
from primus_preflight.agent.probing import Unavailable
from primus_preflight.probes.reading import leading, table

_PROC = "proc/driver/nvidia/gpus"
_SLOWING = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
"""Reasons for lower clocks that are none of idling, of a limit that was set, or of a load's power."""


def from_smi(about: Looked, number: int, seconds: float) -> Mapping[str, Value]:
    """What ``nvidia-smi -q -x`` tells of one device."""
    return parse_query(about.run(["nvidia-smi", "-q", "-x", "-i", str(number)], seconds))


def from_files(about: Looked, number: int, seconds: float) -> Mapping[str, Value]:
    """What the driver's files tell: model and address alone."""
    folders = sorted((about.root / _PROC).glob("*:*"))
    if number >= len(folders):
        raise Unavailable("neither nvidia-smi nor /proc/driver/nvidia is here")
    told = table(folders[number] / "information")
    facts = {"model": told.get("Model"), "address": folders[number].name.lower(), "firmware": told.get("Video BIOS")}
    return _known(facts)


def parse_query(xml: str) -> Mapping[str, Value]:
    """Facts of the first device of an answer, whose elements differ from driver to driver.

    Raises:
        ProgramError: it is no such answer, or tells of no device.
    """
    root = _root(xml)
    gpu = root.find("gpu")
    if gpu is None:
        raise ProgramError("nvidia-smi told of no device")
    limit = gpu.find("gpu_power_readings")
    power = limit if limit is not None else gpu.find("power_readings")
    return _known(
        {
            "model": _text(gpu, "product_name"),
            "address": (_text(gpu, "pci/pci_bus_id") or "").lower()[-12:] or None,
            "driver": _text(root, "driver_version"),
            "firmware": _text(gpu, "vbios_version"),
            "memory_bytes": _mebibytes(gpu, "fb_memory_usage/total"),
            "memory_used_bytes": _mebibytes(gpu, "fb_memory_usage/used"),
            "ecc": {"Enabled": True, "Disabled": False}.get(_text(gpu, "ecc_mode/current_ecc") or ""),
            "uncorrected_errors": _errors(gpu, "uncorrectable"),
            "corrected_errors": _errors(gpu, "correctable"),
            "retired_pages": _retired(gpu),
            "waits_for_reset": _yes(gpu, "remapped_rows/remapped_row_pending", "retired_pages/pending_retirement"),
            "repair_failed": _yes(gpu, "remapped_rows/remapped_row_failure"),
            "temperature_c": _number(gpu, "temperature/gpu_temp"),
            "slowdown_c": _number(gpu, "temperature/gpu_temp_slow_threshold"),
            "throttled": list(_throttled(gpu)),
            "power_limit_w": _first(power, "current_power_limit", "enforced_power_limit", "power_limit"),
            "power_default_w": _first(power, "default_power_limit"),
            "link_width": _number(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width"),
            "partition": _text(gpu, "mig_mode/current_mig"),
        }
    )


def parse_topology(text: str) -> dict[tuple[int, int], str]:
    """Kind of link by pair of devices, from ``nvidia-smi topo -m``: ``NV18``, ``PIX``, ``NODE``, ``SYS`` ..."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    head = next((line.split() for line in lines if line.split()[:1] == ["GPU0"]), [])
    columns = [name for name in head if re.fullmatch(r"GPU\d+", name)]
    links: dict[tuple[int, int], str] = {}
    for line in lines:
        row = line.split()
        if row and row != head and re.fullmatch(r"GPU\d+", row[0]):
            for column, kind in zip(columns, row[1:], strict=False):
                first, second = int(row[0][3:]), int(column[3:])
                if first < second:
                    links[first, second] = kind
    return links


def _root(xml: str) -> Element:
    from xml.etree.ElementTree import fromstring  # here: most nodes have no such device

    try:
        return fromstring(xml)  # noqa: S314 - written by the driver's own program
    except ParseError as broken:
        raise ProgramError(f"nvidia-smi's answer is no XML: {broken}") from None


def _text(node: Element, path: str) -> str | None:
    found = (node.findtext(path) or "").strip()
    return found if found not in ("", "N/A", "None", "[N/A]", "Unknown Error", "[GPU requires reset]") else None


def _number(node: Element, path: str) -> float | None:
    return leading(_text(node, path))


def _first(node: Element | None, *names: str) -> float | None:
    values = (_number(node, name) for name in names) if node is not None else iter(())
    return next((value for value in values if value is not None), None)


def _mebibytes(node: Element, path: str) -> int | None:
    size = _number(node, path)
    return None if size is None else int(size) << 20


def _errors(gpu: Element, kind: str) -> int | None:
    """Sum over SRAM and DRAM since the driver was loaded; None for a device without correction."""
    counts = [
        leading((leaf.text or "").strip())
        for leaf in gpu.findall("ecc_errors/volatile/*")
        if re.match(rf"(?:sram|dram)_{kind}", leaf.tag)
    ]
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known else None


def _retired(gpu: Element) -> int | None:
    """Rows that were replaced for errors, or on older devices pages that were taken out of use."""
    paths = (
        "remapped_rows/remapped_row_corr",
        "remapped_rows/remapped_row_unc",
        "retired_pages/multiple_single_bit_retirement/retired_count",
        "retired_pages/double_bit_retirement/retired_count",
    )
    known = [int(count) for path in paths if (count := _number(gpu, path)) is not None]
    return sum(known) if known else None


def _yes(gpu: Element, *paths: str) -> bool | None:
    answers = [answer for path in paths if (answer := _text(gpu, path)) is not None]
    return any(answer == "Yes" for answer in answers) if answers else None


def _throttled(gpu: Element) -> Iterator[str]:
    """Drivers before version 535 say ``throttle``, later ones ``event``."""
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for leaf in gpu.findall(f"{group}/*"):
            reason = re.sub(r"clocks_(?:event|throttle)_reason_", "", leaf.tag)
            if reason in _SLOWING and (leaf.text or "").strip() == "Active":
                yield reason.replace("_", " ")


def _known(facts: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in facts.items() if value is not None}
