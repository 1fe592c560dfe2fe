"""The plan of a task without experiment and back end: a program of the user's own, a look at the nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from primus_core.contract.markers import CONTRACT
from primus_core.experiment import Sections
from primus_core.plan import Accelerator, Mount, RunPlan, Settings, Target, Task
from primus_core.planning.job import Request, make_job, numa_env
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.secrets import named_secrets, secret_names, split_secrets
from primus_core.planning.settings import core_schema
from primus_core.rundir import RunDir


def task_plan(
    name: str,
    task: Task,
    *,
    folder: str,
    request: Request,
    sections: Sections,
    accelerator: Accelerator,
    nodes: int,
    distributions: Mapping[str, str],
    mounts: tuple[Mount, ...] = (),
) -> RunPlan:
    """The plan of one task.

    Args:
        name: what a scheduler calls it.
        folder: of all runs of it, absolute; see `task_folder`.
        sections: the options of launchers.
        mounts: what a container has to have.
    """
    asked = {**request.launcher_env, **request.env}
    env = {**request.shell, **asked}
    typed = typed_sections(named_secrets(sections))
    rundir = RunDir.of(folder, request.run_id)
    target = Target(accelerator=accelerator, library_version="", ranks_per_node=task.ranks_per_node, nodes=nodes)
    public, secrets = split_secrets({**numa_env(typed.get("direct", {}), request, accelerator), **asked})
    return RunPlan(
        run_id=request.run_id,
        run_dir=str(rundir.path),
        target=target,
        task=task,
        settings=Settings(values=core_schema().defaults),
        job=make_job(
            name,
            task,
            rundir=rundir,
            target=target,
            request=request,
            env=public,
            asked=env,
            sections=typed,
            secrets=tuple(secrets),
            mounts=mounts if request.in_container else (),
        ),
        launcher=request.launcher,
        distributions=distributions,
        secrets=secret_names(env),
        contract=CONTRACT,
    )


def task_workspace(env: Mapping[str, str], cwd: str) -> str:
    """The workspace of what has no experiment: PRIMUS_WORKSPACE, else ``output`` in this folder."""
    return os.path.normpath(os.path.join(cwd, env.get("PRIMUS_WORKSPACE") or "output"))


def task_folder(group: str, name: str, env: Mapping[str, str], cwd: str) -> str:
    """``{workspace}/{group}/{user}/{name}``, as an experiment has it.

    Args:
        group: where PRIMUS_TEAM says nothing.
        name: where PRIMUS_EXP_NAME says nothing.
    """
    user = env.get("PRIMUS_USER") or env.get("USER") or "me"
    names = (env.get("PRIMUS_TEAM") or group, user, env.get("PRIMUS_EXP_NAME") or name)
    return os.path.join(task_workspace(env, cwd), *map(_component, names))


def _component(name: str) -> str:
    """One folder of a path."""
    return re.sub(r"[^\w.+-]", "-", name, flags=re.ASCII).lstrip(".")[:100] or "unnamed"
