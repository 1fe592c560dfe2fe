"""Which plugins and libraries are installed: read from package metadata, nothing is imported until it is selected."""

from primus_core.discovery.contents import Contents, contents
from primus_core.discovery.loading import load
from primus_core.discovery.modules import find_module
from primus_core.discovery.plugins import GROUPS, Group, PluginInfo, Plugins, scan
from primus_core.discovery.presets import preset_dirs
from primus_core.discovery.ranges import is_within, runtime_ranges
from primus_core.discovery.selection import select
from primus_core.discovery.used import used
from primus_core.discovery.versions import distributions, installed_version

__all__ = [
    "GROUPS",
    "Contents",
    "Group",
    "PluginInfo",
    "Plugins",
    "contents",
    "distributions",
    "find_module",
    "installed_version",
    "is_within",
    "load",
    "preset_dirs",
    "runtime_ranges",
    "scan",
    "select",
    "used",
]
