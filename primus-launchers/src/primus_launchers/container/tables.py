"""The data files: what a container needs for each accelerator, and which variables it inherits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class Needs:
    """What the ranks need of a host for one accelerator. Words are those of ``docker run``."""

    devices: tuple[str, ...] = ()
    devices_where_present: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Names, on the host."""
    capabilities: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    ulimits: tuple[str, ...] = ()
    gpus: bool = False
    """The engine itself brings the devices and libraries (NVIDIA's toolkit)."""


@frozen(kw_only=True)
class Variables:
    """Which variables of the host's environment a container inherits."""

    prefixes: tuple[str, ...]
    names: tuple[str, ...]
    caches: tuple[str, ...]
    """They name folders outside of the workspace that libraries write to; mounted where they are set."""
    choosing_devices: tuple[str, ...]
    """Inherited where the container has all devices: they count the host's."""
    read_by_engines: tuple[str, ...]
    """What the engine itself has to see, before anything runs in the container."""

    def inherited(self, env: Mapping[str, str], asked: Iterable[str], *, all_devices: bool = True) -> dict[str, str]:
        """Those of an environment, and those that were asked for by name and are set."""
        listed = {*self.names, *self.caches, *self.read_by_engines, *(self.choosing_devices if all_devices else ())}
        wanted = {*listed, *asked}
        return {name: env[name] for name in sorted(env) if name in wanted or name.startswith(self.prefixes)}


def needs_of(accelerator: str) -> Needs:
    return Needs(**_tuples(_read("accelerators.json")[accelerator]))


def on_this_host(devices: Iterable[str]) -> tuple[str, ...]:
    """Without those that some hosts have and others not, such as InfiniBand's, where this host has them not."""
    table = _read("accelerators.json").values()
    optional = {path for row in table for path in row.get("devices_where_present", ())}
    return tuple(word for word in devices if word not in optional or os.path.exists(word))


def variables() -> Variables:
    return Variables(**_tuples(_read("variables.json")))


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def _read(name: str) -> Any:
    return json.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
