"""AMD's accelerators as amd-smi and rocm-smi tell of them; the words of both differ from release to release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from primus_core.experiment import Value
from primus_preflight.agent.looked import Looked, ProgramError
from primus_preflight.agent.probing import Unavailable
from primus_preflight.probes.reading import leading

_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
"""amd-smi writes MB and means MiB."""


def from_amd_smi(about: Looked, number: int, seconds: float) -> Mapping[str, Value]:
    """What amd-smi tells of one device, asked for what does not change, for what does, and for bad pages."""
    device = ["-g", str(number), "--json"]
    static = only(about.run(["amd-smi", "static", *device], seconds / 3))
    metric = only(about.run(["amd-smi", "metric", *device], seconds / 3))
    try:
        pages = only(about.run(["amd-smi", "bad-pages", *device], seconds / 3))
    except (ProgramError, Unavailable):  # some cards and guests do not tell
        pages = {}
    return parse_amd_smi(static, metric, pages)


def from_rocm_smi(about: Looked, number: int, seconds: float) -> Mapping[str, Value]:
    """What rocm-smi tells, which new releases no longer come with."""
    asked = ["--showproductname", "--showbus", "--showvbios", "--showdriverversion", "--showmeminfo", "vram"]
    return parse_rocm_smi(about.run(["rocm-smi", "-d", str(number), *asked, "--showtemp", "--json"], seconds), number)


def parse_amd_smi(static: Mapping[str, Any], metric: Mapping[str, Any], pages: Mapping[str, Any]) -> dict[str, Value]:
    """Facts of one device from its entries in three answers."""
    firmware = _dig(static, "vbios", "version") or _dig(static, "ifwi", "version")
    facts: dict[str, Value] = {
        "model": _dig(static, "asic", "market_name"),
        "address": _dig(static, "bus", "bdf"),
        "driver": _dig(static, "driver", "version") or _dig(static, "driver", "driver_version"),
        "firmware": firmware,
        "memory_bytes": size(_dig(static, "vram", "size")),
        "memory_used_bytes": size(_dig(metric, "mem_usage", "used_vram")),
        "uncorrected_errors": _count(_dig(metric, "ecc", "total_uncorrectable_count")),
        "corrected_errors": _count(_dig(metric, "ecc", "total_correctable_count")),
        "retired_pages": _pages(pages, "retired"),
        "waits_for_reset": bool(_pages(pages, "pending")) if "pending" in pages else None,
        "temperature_c": _amount(_dig(metric, "temperature", "hotspot")),
        "slowdown_c": _amount(_dig(static, "limit", "slowdown_hotspot_temperature")),
        "throttled": list(_throttled(metric.get("throttle"))),
        "power_limit_w": _amount(_dig(static, "limit", "socket_power")),
        "power_default_w": _amount(_dig(static, "limit", "max_power")),
        "link_width": _amount(_dig(metric, "pcie", "width")),
        "partition": _dig(static, "partition", "accelerator_partition")
        or _dig(static, "partition", "compute_partition"),
    }
    return {name: value for name, value in facts.items() if value is not None}


def parse_rocm_smi(answer: str, number: int) -> dict[str, Value]:
    """Facts of one device; keys of releases differ in their capitals.

    Raises:
        ProgramError: rocm-smi ends with 0 and tells nothing where it failed.
    """
    told = _json(answer, "rocm-smi")
    card = {key.lower(): value for key, value in dict(told.get(f"card{number}") or {}).items()}
    system = {key.lower(): value for key, value in dict(told.get("system") or {}).items()}
    if not card:
        raise ProgramError(f"rocm-smi told nothing of device {number}: {answer.strip()[:200]}")
    total, used = card.get("vram total memory (b)"), card.get("vram total used memory (b)")
    facts: dict[str, Value] = {
        "model": _said(card.get("card series")),
        "address": _lower(card.get("pci bus")),
        "driver": _said(system.get("driver version")),
        "firmware": _said(card.get("vbios version")),
        "memory_bytes": _count(total),
        "memory_used_bytes": _count(used),
        "temperature_c": leading(card.get("temperature (sensor junction) (c)", "")),
    }
    return {name: value for name, value in facts.items() if value is not None}


def parse_topology(answer: str) -> dict[tuple[int, int], str]:
    """Kind of link by pair of devices from ``amd-smi topology --json``, in its form since ROCm 6.1.1 or before."""
    links: dict[tuple[int, int], str] = {}
    for entry in entries(answer):
        first = int(entry.get("gpu", -1))
        listed = {int(link["gpu"]): str(link.get("link_type")) for link in entry.get("links", ()) if "gpu" in link}
        older = entry.get("link_type") or {}
        listed.update({int(name.removeprefix("gpu_")): str(kind) for name, kind in dict(older).items()})
        links.update({(first, second): kind for second, kind in listed.items() if first < second})
    return links


def parse_rocm_topology(answer: str) -> dict[tuple[int, int], str]:
    """The same from ``rocm-smi --showtopotype --json``."""
    told = dict(_json(answer, "rocm-smi").get("system") or {})
    pattern = re.compile(r"Link type between DRM devices (\d+) and (\d+)")
    found = ((pattern.search(key), kind) for key, kind in told.items())
    return {(int(match[1]), int(match[2])): str(kind) for match, kind in found if match}


def entries(answer: str) -> list[dict[str, Any]]:
    """One for each device: releases since ROCm 7 put the list into ``gpu_data``.

    Raises:
        ProgramError: it is no JSON.
    """
    told = _json(answer, "amd-smi")
    listed = told.get("gpu_data", [told]) if isinstance(told, dict) else told
    return [entry for entry in listed if isinstance(entry, dict)]


def only(answer: str) -> dict[str, Any]:
    """The entry of the one device that was asked for.

    Raises:
        ProgramError: there is none.
    """
    found = entries(answer)
    if not found:
        raise ProgramError("amd-smi told of no device")
    return found[0]


def size(told: object) -> int | None:
    """Bytes of ``{"value": 196592, "unit": "MB"}``."""
    if not isinstance(told, dict) or not isinstance(told.get("value"), (int, float)):
        return None
    return int(told["value"] * _SIZES.get(str(told.get("unit")), 1))


def _json(answer: str, program: str) -> Any:
    begin = re.search(r"^[\[{]", answer, re.MULTILINE)  # warnings may come before
    try:
        return json.loads(answer[begin.start() :] if begin else answer)
    except json.JSONDecodeError as broken:
        raise ProgramError(f"{program}'s answer is no JSON: {broken}") from None


def _dig(told: Mapping[str, Any], *names: str) -> Any:
    """What is at a path; None for ``N/A`` and for what is not there."""
    value: Any = told
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return None if value in ("N/A", "") else value


def _amount(told: object) -> float | None:
    """Of a bare number or of ``{"value": 37, "unit": "C"}``."""
    value = told.get("value") if isinstance(told, dict) else told
    return None if isinstance(value, bool) or value is None else leading(value)


def _count(told: object) -> int | None:
    amount = _amount(told)
    return None if amount is None else int(amount)


def _pages(told: Mapping[str, Any], kind: str) -> int | None:
    """How many of a kind are listed; ``No bad pages found.`` is none."""
    if kind not in told:
        return None
    return len(told[kind]) if isinstance(told[kind], list) else 0


def _throttled(told: object) -> Iterator[str]:
    """Reasons that are active; of MI300 and later."""
    for name, value in dict(told).items() if isinstance(told, dict) else ():
        if name.endswith("_violation_status") and str(value).upper() == "ACTIVE" and not name.startswith("ppt"):
            yield name.removesuffix("_violation_status").replace("_", " ")


def _said(value: object) -> str | None:
    return None if value in (None, "", "N/A") else str(value)


def _lower(value: object) -> str | None:
    said = _said(value)
    return said.lower() if said else None
