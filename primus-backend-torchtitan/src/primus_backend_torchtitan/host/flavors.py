"""``model.name`` and ``model.flavor``: a model of TorchTitan's, from the preset of its architecture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import evolve

import primus_core
from primus_backend_torchtitan.host.portable import ARCHITECTURE
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf
from primus_core.parameters import nearest
from primus_core.resolve import preset_parameters

_PACKAGE = Path(__file__).parent.parent
NAMES = ("model.name", "model.flavor")


@cache
def flavors() -> Mapping[str, Mapping[str, str]]:
    """The preset of each flavor, by name of the model."""
    text = (_PACKAGE / "flavors.json").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, str]] = json.loads(text)
    return found


def flavor_of(params: Mapping[str, Leaf]) -> tuple[str, dict[str, Leaf]]:
    """A flavor's name and the parameters of its architecture; empty where none is named.

    Raises:
        ConfigError: there is no such model or flavor, or only one of the two is named.
    """
    named = {name: params[name] for name in NAMES if name in params and params[name].value is not None}
    if not named:
        return "", {}
    name, flavor = (named.get(key) for key in NAMES)
    if name is None or flavor is None:
        raise _half(next(iter(named)), next(iter(named.values())))
    preset = _preset(name, flavor)
    leaves = {key: leaf for key, leaf in _architecture(preset).items() if leaf.value is not None}
    strength = max(name.origin, flavor.origin, key=lambda origin: origin.strength)
    return f"{name.value} {flavor.value}", {key: evolve(leaf, origin=strength) for key, leaf in leaves.items()}


def _preset(name: Leaf, flavor: Leaf) -> str:
    known = flavors()
    if name.value not in known:
        raise _unknown("model.name", name, list(known))
    of_model = known[str(name.value)]
    if flavor.value not in of_model:
        raise _unknown("model.flavor", flavor, list(of_model))
    return of_model[str(flavor.value)]


def _unknown(key: str, leaf: Leaf, known: list[str]) -> ConfigError:
    meant = nearest(str(leaf.value), known)
    guess = f"did you mean {meant}? " if meant else ""
    return ConfigError(
        f"`{key}` is {leaf.value!r}, which no preset is made for",
        where=str(leaf.origin),
        why=f"known: {', '.join(known)}",
        remedy=f"{guess}Any other size is set by portable names: num_layers, hidden_size ...",
    )


def _half(named: str, leaf: Leaf) -> ConfigError:
    (other,) = (name for name in NAMES if name != named)
    return ConfigError(
        f"`{named}` is set, and `{other}` is not",
        where=str(leaf.origin),
        why="both together name a model of TorchTitan's",
        remedy=f"set `{other}`, or choose the model with `model:` alone",
    )


@cache
def _architecture(preset: str) -> Mapping[str, Leaf]:
    """What a preset says of the architecture, by portable name."""
    folders = [str(package / "presets") for package in (_PACKAGE, Path(primus_core.__file__).parent)]
    found = preset_parameters(config="pre_trainer.yaml", model=preset, env={}, folders=folders, cwd=folders[0])
    return {name: found[name] for name in ARCHITECTURE if name in found}
