"""The hardware that an experiment is meant for, where the command that judges it is not where it runs."""

from __future__ import annotations

from primus_core.planning.accelerators import ASSUMED_PER_NODE, Found


def meant(found: Found) -> Found:
    """The accelerators of this host; on a host without any, those of a GPU node."""
    return found if found.count else Found(kind="cuda", count=ASSUMED_PER_NODE)
