"""What the presets of a back end describe, whole models only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import primus_core
from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.resolve import preset_parameters


def presets_of(backend: ModuleType, config: str) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Every preset that is a whole model by itself, by name, with an experiment's parameters.

    Args:
        backend: the package that has presets beside core's.
        config: the module preset that goes with each.
    """
    folders = tuple(Path(str(package.__file__)).parent / "presets" for package in (backend, primus_core))
    names = {path.stem for folder in folders for path in (folder / "models").glob("*.yaml")}
    for name in sorted(names):
        if params := _params(name, config, [str(folder) for folder in folders]):
            yield name, params


def _params(name: str, config: str, folders: list[str]) -> Mapping[str, Value]:
    """Empty where a preset is a part of others."""
    try:
        found = preset_parameters(config=config, model=f"{name}.yaml", env={}, folders=folders, cwd="/")
    except PrimusError:
        return {}
    params = {key: leaf.value for key, leaf in found.items()}
    if any(params.get(key) is None for key in ("num_layers", "hidden_size", "num_attention_heads")):
        return {}
    return {**params, "mock_data": True}
