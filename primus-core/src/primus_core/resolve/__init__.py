"""From an experiment file to an `Experiment`: extends, presets, variables and overrides, each value with its origin."""

from primus_core.resolve.experiment import resolve
from primus_core.resolve.launcherfile import (
    SYSTEM_DEFAULT,
    launcher_files,
    read_launcher_file,
    user_sections,
    with_sections,
)
from primus_core.resolve.standalone import preset_parameters

__all__ = [
    "SYSTEM_DEFAULT",
    "launcher_files",
    "preset_parameters",
    "read_launcher_file",
    "resolve",
    "user_sections",
    "with_sections",
]
