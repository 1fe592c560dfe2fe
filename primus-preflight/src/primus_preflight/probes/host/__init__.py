"""Looks at the host: the machine, limits, clock, PCIe links, the kernel's log and who holds accelerators."""

from __future__ import annotations

from collections.abc import Sequence

from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Look
from primus_preflight.probes.host import clock, kernellog, limits, pcie, strays, system


def looks(about: Looked) -> Sequence[Look]:
    """Every look at the host."""
    return (
        Look(name="system", group="host", take=lambda: system.look(about)),
        Look(name="limits", group="host", take=lambda: limits.look(about)),
        Look(name="clock", group="host", take=lambda: clock.look(about)),
        Look(name="pcie", group="host", take=lambda: pcie.look(about)),
        Look(name="kernel-log", group="host", take=lambda: kernellog.look(about)),
        Look(name="strays", group="host", take=lambda: strays.look(about)),
    )
