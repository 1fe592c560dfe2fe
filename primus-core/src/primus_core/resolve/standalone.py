"""What presets set, without an experiment that names them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from primus_core.errors import raise_all
from primus_core.experiment import Leaf
from primus_core.resolve.presets import PresetPath
from primus_core.resolve.reading import File, Reader
from primus_core.resolve.trees import flatten, merge


def preset_parameters(
    *, config: str, model: str, env: Mapping[str, str], folders: Sequence[str], cwd: str
) -> dict[str, Leaf]:
    """The parameters of a module preset under a model preset, by dotted path.

    Args:
        folders: where presets are, the strongest first; ``cwd`` comes before.

    Raises:
        ConfigError, ErrorGroup: there is no such preset, or one cannot be read.
    """
    reader = Reader(env)
    places = [File(path=os.path.join(cwd, folder), name=folder) for folder in folders]
    path = PresetPath(
        reader=reader, experiment=File(path=os.path.join(cwd, "new.yaml"), name="new.yaml"), folders=places
    )
    tree = merge(path.read("modules", config, "--config"), path.read("models", model, "--model"))
    raise_all(reader.errors)
    return flatten(tree)
