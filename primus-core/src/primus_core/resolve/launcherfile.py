"""Files with defaults for launchers: the sections `direct:`, `container:` and `slurm:` without an experiment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from attrs import evolve

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment, Leaf
from primus_core.resolve.layout import LAUNCHERS, unknown_key
from primus_core.resolve.reading import File, Reader
from primus_core.resolve.trees import Tree, flatten, parameters, section
from primus_core.yamlfile import Fields

_SECTIONS = (*LAUNCHERS, "main")
"""`main:` is for the command line itself."""

Sections = Mapping[str, Mapping[str, Leaf]]


def read_launcher_file(path: str, env: Mapping[str, str], cwd: str) -> Sections:
    """The options of a file by launcher, each with its place.

    Raises:
        ConfigError, ErrorGroup: it cannot be read, has another section, or a section that is no map.
    """
    reader = Reader(env)
    fields = reader.read(File(path=os.path.join(cwd, path), name=path), "default")
    tree: Tree = {}
    for name, node in fields.entries.items():
        if name not in _SECTIONS:
            reader.errors.append(unknown_key(name, _SECTIONS, "a launcher's file", str(node.origin)))
        elif isinstance(node, Fields):
            tree[name] = parameters(node, "default", reader.errors)
        elif node.value is not None:
            where = str(node.origin)
            reader.errors.append(ConfigError(f"`{name}` is no map", where=where, remedy="write `key: value` below it"))
    raise_all(reader.errors)
    return {name: flatten(section(tree, name)) for name in _SECTIONS}


def with_defaults(experiment: Experiment, launcher: str, defaults: Mapping[str, Leaf]) -> Experiment:
    """The experiment, with the options of a launcher that its own section leaves open."""
    options = {**defaults, **experiment.launchers.get(launcher, {})}
    return evolve(experiment, launchers={**experiment.launchers, launcher: options}) if options else experiment
