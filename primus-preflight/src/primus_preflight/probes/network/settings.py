"""Settings of NCCL, RCCL and Gloo that name interfaces and devices, against those that this node has."""

from __future__ import annotations

from primus_core.experiment import Value
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.network.addresses import own_addresses
from primus_preflight.probes.network.interfaces import interfaces
from primus_preflight.probes.network.rdma import ports
from primus_preflight.settings.naming import NAMING, named_devices, named_interfaces


def look(about: Looked) -> Outcome:
    """What is set, and what of it names nothing."""
    found = interfaces(about.root, own_addresses())
    devices = ports(about.root)
    facts: dict[str, Value] = {name: about.env[name] for name in NAMING if name in about.env}
    findings = (
        *named_interfaces(about.env, [one.name for one in found], about.plan.target.nodes),
        *named_devices(about.env, devices),
    )
    return Outcome(facts=facts, findings=findings)
