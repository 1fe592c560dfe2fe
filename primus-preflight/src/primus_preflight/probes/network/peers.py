"""Which other hosts a node is told of before it has met any."""

from __future__ import annotations

from primus_preflight.agent.looked import Looked


def peers(about: Looked) -> tuple[str, ...]:
    """Names or addresses: the meeting point of all ranks, and the hosts that the launcher was given."""
    hosts = about.plan.job.options.get("hosts")
    listed = [str(host).rpartition("@")[2] for host in hosts] if isinstance(hosts, list) else []
    meeting = about.env.get("MASTER_ADDR", "")
    return tuple(dict.fromkeys(name for name in (meeting, *listed) if name))
