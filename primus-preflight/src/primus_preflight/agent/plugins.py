"""Checks of installed plugins, each a look at the node of its own."""

from __future__ import annotations

from functools import partial

from primus_core import discovery
from primus_core.discovery import PluginInfo, Plugins
from primus_core.hooks import load_host
from primus_core.outcome import Where
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Look, Outcome

_OWN = "primus-preflight"
"""Its check is for runs: in a preflight, the other looks see all that it would."""
_SECONDS = 30.0


def looks(about: Looked) -> tuple[Look, ...]:
    """One for each preflight plugin that others have installed, in the order of their names."""
    plugins = discovery.scan().of("primus.preflight")
    return tuple(
        Look(
            name=_name(info),
            group="plugin",
            take=partial(_check, info, about),
            seconds=_SECONDS,
        )
        for info in plugins
        if info.distribution != _OWN
    )


def _name(info: PluginInfo) -> str:
    return f"{info.name} of {info.distribution}"


def _check(info: PluginInfo, about: Looked) -> Outcome:
    """What a plugin finds on this node.

    Raises:
        DependencyError: it cannot be used, or its check fails.
    """
    alone = load_host(Plugins((info,)), backend=None, launcher=None, preflight=True)
    return Outcome(findings=alone.check_strictly(about.plan, Where.NODE, about.env))
