"""Looks at the network: interfaces, RDMA devices, names, ways to peers, and settings of libraries against all these."""

from __future__ import annotations

from collections.abc import Sequence

from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Look
from primus_preflight.probes.network import interfaces, names, rdma, routes, settings


def looks(about: Looked) -> Sequence[Look]:
    """Every look at this node's side of the network; what needs the other side is measured when nodes meet."""
    return (
        Look(name="interfaces", group="network", take=lambda: interfaces.look(about)),
        Look(name="rdma", group="network", take=lambda: rdma.look(about)),
        Look(name="names", group="network", take=lambda: names.look(about), seconds=20.0),
        Look(name="routes", group="network", take=lambda: routes.look(about), seconds=20.0),
        Look(name="settings", group="network", take=lambda: settings.look(about)),
    )
