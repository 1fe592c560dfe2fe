"""Where an experiment's model is another than the one that its preset is named after."""

from __future__ import annotations

from primus_core.experiment import Module

_SWITCH = "multi_latent_attention"


def departures(module: Module) -> tuple[str, ...]:
    """A sentence where the preset's latent attention is switched off, of which no other parameter tells.

    The sizes of latent attention are still set then, and mean nothing.
    """
    leaf = module.params.get(_SWITCH)
    if leaf is None or leaf.value:
        return ()
    if not any(one.value and one.origin.layer == "model" for one in leaf.overrode):
        return ()
    return (
        f"{module.model} has latent attention, and {_SWITCH}: false ({leaf.origin}) puts ordinary attention in its "
        f"place: this is another model than the published one, which {_SWITCH}=true projects.",
    )
