"""Which run a command is about, when it is about one that was started before."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.codec import from_json
from primus_core.errors import ConfigError
from primus_core.plan import RunPlan
from primus_core.rundir import GIVE_A_RUN, RunDir, find_plan
from primus_core.submit.handle import runs_of

OUTPUT = "output"
"""The workspace where no run is named."""
_WORKSPACE = "PRIMUS_WORKSPACE"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RUN_HELP = (
    "a run's folder or plan.json, an experiment's folder or file (its newest run); below "
    f"${_WORKSPACE} and ./{OUTPUT} also a run's id or its job's number; default: the newest run below ./{OUTPUT}"
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
    if not os.path.exists(name) and _NAME.fullmatch(name):
        return find_plan(str(_with_name(name, env)))
    return find_plan(name)


def read_plan(path: Path) -> RunPlan:
    """The plan in a file, for where the run is now.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    try:
        plan = from_json(RunPlan, path.read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("the plan cannot be read", where=str(path), why=str(error), remedy=GIVE_A_RUN) from None
    return evolve(plan, run_dir=str(RunDir.with_plan(path, plan.run_dir).path))


def short_name(run_dir: Path, env: Mapping[str, str]) -> str:
    """What `plan_of` takes for this run, in this folder: its id, or where that is not enough its folder."""
    below = any(run_dir.is_relative_to(folder.resolve()) for folder in _workspaces(env))
    return run_dir.name if below else str(run_dir)


def _workspaces(env: Mapping[str, str]) -> list[Path]:
    """Where runs are looked for by a name alone."""
    named = [env[_WORKSPACE]] if env.get(_WORKSPACE) else []
    return [Path(folder) for folder in dict.fromkeys([*named, OUTPUT])]


def _with_name(name: str, env: Mapping[str, str]) -> Path:
    """The run with this id, else the newest whose job has this number."""
    folders = _workspaces(env)
    found = [path for folder in folders for path in folder.glob(f"*/*/*/runs/{name}")] or runs_of(name, folders)
    if not found:
        raise ConfigError(
            "there is no such run",
            where=name,
            why=f"no run below {' and '.join(map(str, folders))} has this id, and none is a job with this number",
            remedy=f"{GIVE_A_RUN}; {_WORKSPACE} names another workspace",
        )
    return found[-1]


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
