"""The plan of a Python program that runs under a launcher: a task without experiment and back end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Sections, Value
from primus_core.plan import RunPlan, Task
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.mounts import script_mounts
from primus_core.planning.ranks import ranks_per_node
from primus_core.planning.secrets import is_secret, named_secrets
from primus_core.planning.task import task_folder, task_plan, task_workspace

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
    env = {**request.shell, **request.launcher_env, **request.env}
    raise_all(_secrets_in(words, env))
    typed = typed_sections(named_secrets(sections))
    ranks = ranks_per_node(
        request.ranks_per_node, request.launcher, typed, env=env, kind=found.kind, found=found, origins=sections
    )
    arguments: dict[str, Value] = {"path": _word(os.path.abspath(path)), "argv": [_word(word) for word in words]}
    return task_plan(
        os.path.basename(path),
        Task(kind="script", entry=ENTRY, arguments=arguments, ranks_per_node=ranks),
        folder=task_folder("scripts", os.path.splitext(os.path.basename(path))[0], env, request.cwd),
        request=request,
        sections=sections,
        accelerator=found.kind,
        nodes=nodes,
        distributions=distributions,
        mounts=script_mounts(os.path.abspath(path), task_workspace(env, request.cwd)),
    )


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
