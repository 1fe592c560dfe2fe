"""The plan of a Python program that runs under a launcher: a task without experiment and back end."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from primus_core.contract.markers import CONTRACT
from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Sections, Value
from primus_core.plan import RunPlan, Settings, Target, Task
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request, make_job, numa_env
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.mounts import script_mounts
from primus_core.planning.ranks import ranks_per_node
from primus_core.planning.secrets import is_secret, named_secrets, secret_names, split_secrets
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
    sections: Sections,
    found: Found,
    nodes: int,
    distributions: Mapping[str, str],
) -> RunPlan:
    """The plan of one program.

    Args:
        script: path of the program, relative to the request's folder.
        words: its arguments; each reaches it byte for byte.
        sections: the options of launchers.

    Raises:
        ConfigError: there is no such program, or an argument holds a secret.
    """
    path = os.path.join(request.cwd, script)
    if not os.path.isfile(path):
        raise ConfigError(f"--script {script}: no such file", remedy="name a Python program")
    asked = {**request.launcher_env, **request.env}
    env = {**request.shell, **asked}
    raise_all(_secrets_in(words, env))
    typed = typed_sections(named_secrets(sections))
    workspace, folder = _workspace(env, request.cwd), _folder(path, env)
    rundir = RunDir.of(os.path.join(workspace, folder), request.run_id)
    ranks = ranks_per_node(
        request.ranks_per_node, request.launcher, typed, env=env, kind=found.kind, found=found, origins=sections
    )
    arguments: dict[str, Value] = {"path": _word(os.path.abspath(path)), "argv": [_word(word) for word in words]}
    task = Task(kind="script", entry=ENTRY, arguments=arguments, ranks_per_node=ranks)
    target = Target(accelerator=found.kind, library_version="", ranks_per_node=ranks, nodes=nodes)
    public, secrets = split_secrets({**numa_env(typed.get("direct", {}), request, found.kind), **asked})
    return RunPlan(
        run_id=request.run_id,
        run_dir=str(rundir.path),
        target=target,
        task=task,
        settings=Settings(values=core_schema().defaults),
        job=make_job(
            os.path.basename(path),
            task,
            rundir=rundir,
            target=target,
            request=request,
            env=public,
            asked=env,
            sections=typed,
            secrets=tuple(secrets),
            mounts=script_mounts(os.path.abspath(path), workspace) if request.in_container else (),
        ),
        launcher=request.launcher,
        distributions=distributions,
        secrets=secret_names(env),
        contract=CONTRACT,
    )


def _workspace(env: Mapping[str, str], cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, env.get("PRIMUS_WORKSPACE") or "output"))


def _folder(path: str, env: Mapping[str, str]) -> str:
    """``scripts/{user}/{name of the program}`` in the workspace, as an experiment has it."""
    names = (env.get("PRIMUS_TEAM") or "scripts", env.get("PRIMUS_USER") or env.get("USER") or "me")
    program = env.get("PRIMUS_EXP_NAME") or os.path.splitext(os.path.basename(path))[0]
    return os.path.join(*map(_component, (*names, program)))


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
