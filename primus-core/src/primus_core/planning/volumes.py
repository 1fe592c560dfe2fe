"""Paths as a container sees them, where the user writes those: ``--volume /mnt/data:/data`` and ``/data/exp.yaml``.

A plan is made outside of the container, of this host's files, which the container has under the same paths. A path that
is not here and lies below a volume's place in the container is read as the volume's place on this host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from primus_core.experiment import Experiment, Leaf, Module, Value

_PATH = re.compile(r"(?<!\S)/\S+")


def on_host(path: str, volumes: Sequence[str]) -> str:
    """The path on this host; as it is where it is here, or below no volume."""
    if not path.startswith("/") or os.path.exists(path):
        return path
    for inside, host in sorted(_pairs(volumes), reverse=True):
        if path == inside or path.startswith(f"{inside}/"):
            return host + path[len(inside) :]
    return path


def with_host_paths(experiment: Experiment, volumes: Sequence[str]) -> Experiment:
    """The experiment, with its workspace and the paths in its parameters as this host has them."""
    if not any(True for _ in _pairs(volumes)):
        return experiment
    modules = {name: _moved(module, volumes) for name, module in experiment.modules.items()}
    return evolve(experiment, modules=modules, workspace=on_host(experiment.workspace, volumes))


def _moved(module: Module, volumes: Sequence[str]) -> Module:
    params: Mapping[str, Leaf] = {key: _moved_leaf(leaf, volumes) for key, leaf in module.params.items()}
    return evolve(module, params=params)


def _moved_leaf(leaf: Leaf, volumes: Sequence[str]) -> Leaf:
    value = _moved_value(leaf.value, volumes)
    return leaf if value == leaf.value else evolve(leaf, value=value, text=None)


def _moved_value(value: Value, volumes: Sequence[str]) -> Value:
    if isinstance(value, list):
        return [_moved_value(one, volumes) for one in value]
    if not isinstance(value, str) or "/" not in value:
        return value
    moved = on_host(value, volumes)
    return moved if moved != value else _PATH.sub(lambda found: on_host(found.group(), volumes), value)


def _pairs(volumes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Place in the container and on this host, where they differ."""
    for volume in volumes:
        host, _, rest = volume.partition(":")
        inside = rest.partition(":")[0].rstrip("/")
        if host.startswith("/") and inside.startswith("/") and inside != host.rstrip("/"):
            yield inside, host.rstrip("/")
