"""The plan of a Python program that runs under a launcher: a task without experiment and back end."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from primus_core.contract.markers import CONTRACT
from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Value
from primus_core.plan import Job, RunPlan, Settings, Target, Task
from primus_core.planning.accelerators import Found
from primus_core.planning.make import RANK_MODULE, Request, gpus_per_node, meeting_point, numa_env
from primus_core.planning.secrets import is_secret, secret_names, split_secrets
from primus_core.planning.settings import core_schema
from primus_core.rundir import RunDir

ENTRY = "primus_core.rank.script:run"
_SHORTEST = 8
"""Characters; a shorter secret is part of too many innocent words."""


def script_plan(
    script: str,
    words: Sequence[str],
    *,
    request: Request,
    options: Mapping[str, Value],
    found: Found,
    nodes: int,
    distributions: Mapping[str, str],
) -> RunPlan:
    """The plan of one program.

    Args:
        script: path of the program, relative to the request's folder.
        words: its arguments; each reaches it byte for byte.
        options: the section `direct:` of the launcher's file, typed.

    Raises:
        ConfigError: there is no such program, or an argument holds a secret.
    """
    path = os.path.join(request.cwd, script)
    if not os.path.isfile(path):
        raise ConfigError(f"--script {script}: no such file", remedy="name a Python program")
    env = {**request.shell, **request.env}
    raise_all(_secrets_in(words, env))
    rundir = RunDir.of(_folder(path, env, request.cwd), request.run_id)
    given = env.get("GPUS_PER_NODE")
    asked = request.ranks_per_node or (gpus_per_node(given) if given else options.get("gpus_per_node"))
    ranks = asked if isinstance(asked, int) else found.count or 1
    arguments: dict[str, Value] = {"path": _word(os.path.abspath(path)), "argv": [_word(word) for word in words]}
    task = Task(kind="script", entry=ENTRY, arguments=arguments, ranks_per_node=ranks)
    public, _ = split_secrets({**numa_env(options, request, found.kind), **request.env})
    return RunPlan(
        run_id=request.run_id,
        run_dir=str(rundir.path),
        target=Target(accelerator=found.kind, library_version="", ranks_per_node=ranks, nodes=nodes),
        task=task,
        settings=Settings(values=core_schema().defaults),
        job=Job(
            run_id=request.run_id,
            name=os.path.basename(path),
            task=task,
            python=sys.executable,
            argv=("-m", RANK_MODULE, str(rundir.plan)),
            env=public,
            nodes=nodes,
            workdir=request.cwd,
            log_dir=str(rundir.submission),
            options={**options, **meeting_point(env)},
        ),
        launcher=request.launcher,
        distributions=distributions,
        secrets=secret_names(env),
        contract=CONTRACT,
    )


def _folder(path: str, env: Mapping[str, str], cwd: str) -> str:
    """``{workspace}/scripts/{user}/{name of the program}``, as an experiment has it."""
    workspace = os.path.normpath(os.path.join(cwd, env.get("PRIMUS_WORKSPACE") or "output"))
    names = (env.get("PRIMUS_TEAM") or "scripts", env.get("PRIMUS_USER") or env.get("USER") or "me")
    program = env.get("PRIMUS_EXP_NAME") or os.path.splitext(os.path.basename(path))[0]
    return os.path.join(workspace, *map(_component, (*names, program)))


def _component(name: str) -> str:
    """One folder of a path."""
    return re.sub(r"[^\w.+-]", "-", name, flags=re.ASCII).lstrip(".")[:100] or "unnamed"


def _word(text: str) -> Value:
    """A word as JSON can hold it: bytes that are no UTF-8 as hexadecimal digits."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return {"bytes": os.fsencode(text).hex()}
    return text


def _secrets_in(words: Sequence[str], env: Mapping[str, str]) -> list[ConfigError]:
    secrets = {name: value for name, value in env.items() if is_secret(name) and len(value) >= _SHORTEST}
    return [
        ConfigError(
            f"argument {number} of the script holds the value of {name}",
            why="arguments are written to plan.json, where secrets must not be",
            remedy=f"let the script read the variable {name}: the ranks inherit it",
        )
        for number, word in enumerate(words, start=1)
        for name, value in secrets.items()
        if value in word
    ]
