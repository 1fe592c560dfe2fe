"""Settings of NCCL, RCCL, Gloo, torch and the drivers: what is wrong with them, on this node."""

from __future__ import annotations

from primus_core.experiment import Value
from primus_core.planning.accelerators import find_accelerators
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.network.addresses import own_addresses
from primus_preflight.probes.network.interfaces import interfaces
from primus_preflight.probes.network.rdma import ports
from primus_preflight.settings.judging import judged
from primus_preflight.settings.naming import NAMING, named_devices, named_interfaces


def look(about: Looked) -> Outcome:
    """What is set to name interfaces and devices, and every finding about settings."""
    found = interfaces(about.root, own_addresses())
    devices = ports(about.root)
    facts: dict[str, Value] = {name: about.env[name] for name in NAMING if name in about.env}
    kind, nodes = find_accelerators(about.root).kind, about.plan.target.nodes
    findings = (
        *judged(about.env, kind, nodes),
        *named_interfaces(about.env, [one.name for one in found], nodes),
        *named_devices(about.env, devices),
    )
    return Outcome(facts=facts, findings=findings)
