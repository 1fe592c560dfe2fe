"""Which run a command is about, when it is about one that was started before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from primus_core.errors import ConfigError
from primus_core.rundir import find_plan

OUTPUT = "output"
"""The workspace where no run is named."""
RUN_HELP = (
    "a run's folder, an experiment's folder or file (its newest run), or a plan.json; "
    f"default: the newest run below ./{OUTPUT}"
)


def plan_of(name: str | None, env: Mapping[str, str]) -> Path:
    """The plan of the run that a user names, or of the newest.

    Raises:
        ConfigError: there is no run.
    """
    if name is None:
        return _newest()
    if name.endswith((".yaml", ".yml")) and os.path.isfile(name):
        return find_plan(_folder_of(name, env))
    return find_plan(name)


def _newest() -> Path:
    plans = list(Path(OUTPUT).glob("*/*/*/runs/*/plan.json"))
    if not plans:
        raise ConfigError(
            f"there is no run below ./{OUTPUT}", remedy="name one: its folder, its experiment's folder or its file"
        )
    return max((path.resolve() for path in plans), key=lambda path: path.stat().st_mtime)


def _folder_of(file: str, env: Mapping[str, str]) -> str:
    """Where the experiment of a file has its runs."""
    from primus_core import discovery  # here: a folder needs no experiment to be read
    from primus_core.resolve import resolve

    plugins = discovery.scan()
    experiment = resolve(
        file, env=env, preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework), cwd=os.getcwd()
    )
    if not os.path.isdir(experiment.folder):
        raise ConfigError("the experiment has not been run", where=file, why=f"there is no {experiment.folder}")
    return experiment.folder
