"""Which other hosts a node is told of before it has met any."""

from __future__ import annotations

from primus_core.planning.hosts import Host
from primus_preflight.agent.looked import Looked


def meeting_point(about: Looked) -> str:
    """Name or address at which the ranks of several nodes meet; empty on one node, whatever its shell has set."""
    return about.env.get("MASTER_ADDR", "").strip("[]") if about.plan.target.nodes > 1 else ""


def peers(about: Looked) -> tuple[str, ...]:
    """Names or addresses: the meeting point, and the hosts that the launcher was given.

    The latter are names of the submitting host's ssh configuration: other hosts need not know them.
    """
    hosts = about.plan.job.options.get("hosts")
    listed = [Host.of(str(host), "--hosts").name for host in hosts] if isinstance(hosts, list) else []
    return tuple(dict.fromkeys(name for name in (meeting_point(about), *listed) if name))
