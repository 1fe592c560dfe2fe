"""One accelerator: what its driver's tool tells of it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.plan import Accelerator
from primus_core.quantities import memory_size
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import error, warning
from primus_preflight.probes.gpu import amd, nvidia, sysfs

_PROGRAM_SECONDS = 25.0
_FREE = 2 << 30
"""Bytes that a driver itself may take of a device's memory."""
_NEAR = 3.0
"""Degrees below the temperature at which a device slows down."""
_HOT = 95.0
"""Where the device does not tell that temperature."""


def look(about: Looked, kind: Accelerator, number: int) -> Outcome:
    """The driver's device of this number."""
    facts = facts_of(about, kind, number)
    return Outcome(facts=facts, findings=tuple(judged(facts)))


def facts_of(about: Looked, kind: Accelerator, number: int) -> Mapping[str, Value]:
    """From the first tool that is installed; a tool that is there and fails is an error, not passed over.

    Facts, each left out where it is not known: ``model``, ``address`` (PCI), ``driver``, ``firmware``,
    ``memory_bytes``, ``memory_used_bytes``, ``ecc`` (on or off), ``uncorrected_errors`` and ``corrected_errors``
    (since the driver was loaded), ``retired_pages`` (rows or pages out of use for good), ``waits_for_reset``,
    ``repair_failed``, ``temperature_c``, ``slowdown_c``, ``throttled`` (reasons), ``power_limit_w``,
    ``power_default_w``, ``link_width``, ``partition``.
    """
    ways = {"cuda": (nvidia.from_smi, nvidia.from_files), "rocm": (amd.from_amd_smi, amd.from_rocm_smi, sysfs.amd)}
    missing: Unavailable | None = None
    for way in ways[kind]:
        try:
            return way(about, number, _PROGRAM_SECONDS)
        except Unavailable as failure:
            missing = missing or failure
    raise missing or Unavailable("nothing tells of this device")


def judged(facts: Mapping[str, Value]) -> Iterator[Finding]:
    """What is wrong, whatever others have."""
    yield from _memory(facts)
    yield from _heat(facts)
    limit, default = _number(facts, "power_limit_w"), _number(facts, "power_default_w")
    if limit and default and limit < default:
        yield warning(
            "gpu.power-limit",
            f"its power is limited to {limit:g} W",
            f"instead of {default:g} W",
            "Set the default limit again: `nvidia-smi -pl`, `amd-smi set --power-cap`.",
        )


def _memory(facts: Mapping[str, Value]) -> Iterator[Finding]:
    broken, retired = _number(facts, "uncorrected_errors"), _number(facts, "retired_pages")
    if broken:
        yield error(
            "gpu.ecc",
            f"its memory had {broken:g} uncorrectable error{'s' * (broken != 1)}",
            "since its driver was loaded" + (f"; {retired:g} rows or pages are out of use" if retired else ""),
            "Reset the device or restart the node; when it comes again, have it replaced.",
        )
    if facts.get("repair_failed"):
        yield error("gpu.repair", "its memory has no rows left to replace broken ones", remedy="Have it replaced.")
    if facts.get("waits_for_reset"):
        yield warning(
            "gpu.reset", "broken rows of its memory wait to be replaced", remedy="Reset it or restart the node."
        )
    if facts.get("ecc") is False:
        yield warning(
            "gpu.ecc-off",
            "the correction of memory errors is off",
            "a flipped bit in a weight or a gradient stays unseen",
            "`nvidia-smi -e 1`, then restart the node.",
        )
    used = _number(facts, "memory_used_bytes")
    if used and used > _FREE:
        yield warning(
            "gpu.memory-used",
            f"{memory_size(int(used))} of its memory are taken before the run",
            "by another process, or by one that ended and left it",
            "Look for processes that hold it; where there is none, reset the device.",
        )


def _heat(facts: Mapping[str, Value]) -> Iterator[Finding]:
    throttled = facts.get("throttled")
    if isinstance(throttled, list) and throttled:
        yield warning(
            "gpu.throttled",
            f"it is slowed down: {', '.join(map(str, throttled))}",
            _temperature(facts),
            "Look at the node's cooling and power supply.",
        )
    heat, limit = _number(facts, "temperature_c"), _number(facts, "slowdown_c")
    if heat is not None and heat >= (limit - _NEAR if limit else _HOT):
        yield warning("gpu.hot", f"it is at {heat:g} °C before the run", _temperature(facts), "Look at its cooling.")


def _temperature(facts: Mapping[str, Value]) -> str:
    heat, limit = _number(facts, "temperature_c"), _number(facts, "slowdown_c")
    if heat is None:
        return ""
    return f"{heat:g} °C" + (f"; it slows down at {limit:g} °C" if limit else "")


def _number(facts: Mapping[str, Value], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
