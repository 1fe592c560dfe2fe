"""Folders of presets that packages bring along."""

from __future__ import annotations

from primus_core.discovery.modules import find_module
from primus_core.discovery.plugins import Plugins
from primus_core.discovery.selection import select

CORE = "core"
"""Name under which primus-core declares its own presets, which every back end reads."""


def preset_dirs(plugins: Plugins, framework: str) -> list[str]:
    """Preset folders of a framework, the back end's own first. Imports no package.

    Raises:
        DependencyError: two distributions claim the presets of the framework.
    """
    names = {info.name for info in plugins.of("primus.presets")}
    wanted = [select(plugins, "primus.presets", name) for name in (framework, CORE) if name in names]
    return [folder for info in wanted for folder in _folders(info.module)]


def _folders(package: str) -> list[str]:
    spec = find_module(package)
    return list(spec.submodule_search_locations or ()) if spec else []
