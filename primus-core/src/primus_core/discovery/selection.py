"""Choosing a plugin by the name that the user wrote."""

from __future__ import annotations

from primus_core.discovery.plugins import KINDS, Group, PluginInfo, Plugins
from primus_core.errors import ConfigError, DependencyError
from primus_core.parameters import nearest

_PACKAGES: dict[tuple[Group, str], str] = {
    ("primus.backends", "megatron"): "primus-backend-megatron",
    ("primus.backends", "torchtitan"): "primus-backend-torchtitan",
    ("primus.ranks", "megatron"): "primus-backend-megatron",
    ("primus.ranks", "torchtitan"): "primus-backend-torchtitan",
    ("primus.launchers", "direct"): "primus-launchers",
    ("primus.launchers", "container"): "primus-launchers",
    ("primus.launchers", "slurm"): "primus-launchers",
    ("primus.preflight", "host"): "primus-preflight",
    ("primus.commands", "preflight"): "primus-preflight",
    ("primus.commands", "benchmark"): "primus-preflight",
}
"""Names that a user may ask for before the package that has them is installed."""


def select(plugins: Plugins, group: Group, name: str, *, where: str = "") -> PluginInfo:
    """The one plugin of a name. It may still be broken: `load` tells.

    Args:
        where: place of the name in the user's files, for the message.

    Raises:
        ConfigError: no such plugin is installed.
        DependencyError: several distributions claim the name.
    """
    found = [info for info in plugins.of(group) if info.name == name]
    if not found:
        raise _unknown(plugins, group, name, where)
    if len(found) > 1:
        raise _contested(found, where)
    return found[0]


def _contested(found: list[PluginInfo], where: str) -> DependencyError:
    names = " and ".join(f"{info.distribution} {info.version}" for info in found)
    return DependencyError(
        f"{names} both claim the {found[0].kind} {found[0].name!r}",
        where=where,
        why="A name must have one owner: which one would run is not for the order of installation to decide.",
        remedy="Remove one: " + " or ".join(f"`pip uninstall {info.distribution}`" for info in found) + ".",
    )


def _unknown(plugins: Plugins, group: Group, name: str, where: str) -> ConfigError:
    names = sorted({info.name for info in plugins.of(group)})
    return ConfigError(
        f"no {KINDS[group]} {name!r} is installed",
        where=where,
        why=f"Installed: {', '.join(names) or 'none'}.",
        remedy=_remedy(plugins, group, name),
    )


def _remedy(plugins: Plugins, group: Group, name: str) -> str:
    installed = {info.name for info in plugins.of(group)}
    packages = {known: package for (in_group, known), package in _PACKAGES.items() if in_group == group}
    if name in packages:
        return _install(plugins, packages[name])
    meant = nearest(name, {*installed, *packages})
    if meant in packages and meant not in installed:
        return f"Did you mean {meant!r}? {_install(plugins, packages[meant])}"
    guess = f"Did you mean {meant!r}? Else install" if meant else "Install"
    known = f"; known ones: {', '.join(sorted(set(packages.values())))}." if packages else "."
    return f"{guess} the package that has it{known}"


def _install(plugins: Plugins, package: str) -> str:
    """How to get what a package has; an installed one that lacks it is too old."""
    version = next((info.version for info in plugins if info.distribution == package), None)
    if version is None:
        return f"Install it: `pip install {package}`."
    return f"{package} {version} does not have it; a newer one may: `pip install --upgrade {package}`."
