"""What a launcher is asked to start, for a training as for a program of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from attrs import field

from primus_core.experiment import Value
from primus_core.plan import Accelerator, Job, Mount, Preflight, Target, Task
from primus_core.planning.sections import CONTAINER, SLURM
from primus_core.records import frozen
from primus_core.rundir import RunDir

RANK_MODULE = "primus_core.rank"
NUMA = "PRIMUS_NUMA"
"""Variable that tells a rank to bind itself: ``on:ACCELERATOR`` or ``auto:ACCELERATOR``."""
_MASTER = {"MASTER_ADDR": "master_addr", "MASTER_PORT": "master_port", "NODE_RANK": "node_rank"}


@frozen(kw_only=True)
class Request:
    """What the command line asks of a run beside the experiment itself."""

    launcher: str
    run_id: str
    inside: str = "direct"
    """What starts the ranks on each node of a scheduler: ``direct`` or ``container``."""
    ranks_per_node: int | None = None
    env: Mapping[str, str] = field(factory=dict)
    """``--env`` of the command line."""
    launcher_env: Mapping[str, str] = field(factory=dict)
    """What patch scripts export, and ``NAME=VALUE`` of ``container.env``: weaker than the experiment's ``env:``."""
    shell: Mapping[str, str] = field(factory=dict)
    """The environment of ``primus`` itself."""
    numa: str | None = None
    """``on`` or ``off`` of the command line; None: as the section `direct:` says."""
    allowed_drift: tuple[str, ...] = ()
    preflight: Preflight = "on"
    cwd: str = "."
    hosts: tuple[str, ...] = ()
    """Where the launcher `ssh` starts the ranks; empty for the others."""

    @property
    def shell_reaches_ranks(self) -> bool:
        """Whether the ranks have what the shell has exported, and the libraries that are installed here."""
        return not self.in_container and self.launcher != "ssh"

    @property
    def in_container(self) -> bool:
        return CONTAINER in (self.launcher, self.inside)


def make_job(
    name: str,
    task: Task,
    *,
    rundir: RunDir,
    target: Target,
    request: Request,
    env: Mapping[str, str],
    asked: Mapping[str, str],
    sections: Mapping[str, Mapping[str, Value]],
    secrets: Sequence[str],
    mounts: tuple[Mount, ...],
) -> Job:
    """The ranks' command and what the launcher has to know.

    Args:
        name: what the scheduler calls it.
        env: variables of the ranks, without secrets.
        asked: the environment that the ranks will have, as far as it is known here.
        sections: of all launchers, typed.
        secrets: names of those that the user gave or the experiment names.
    """
    return Job(
        run_id=request.run_id,
        name=name,
        task=task,
        python=sys.executable,
        argv=("-m", RANK_MODULE, str(rundir.plan)),
        env=env,
        nodes=target.nodes,
        workdir=request.cwd,
        log_dir=str(rundir.submission),
        options=_options(request, sections, asked),
        sections=sections,
        inside=request.inside,
        accelerator=target.accelerator,
        run_dir=str(rundir.path),
        secrets=tuple(sorted(secrets)),
        mounts=mounts,
    )


def _options(
    request: Request, sections: Mapping[str, Mapping[str, Value]], asked: Mapping[str, str]
) -> dict[str, Value]:
    options = dict(sections.get(request.launcher, {}))
    if request.hosts:
        options["hosts"] = list(request.hosts)
    # a scheduler's nodes meet where the scheduler puts them, whatever the login node's shell has
    return options if request.launcher == SLURM else {**options, **meeting_point(asked)}


def meeting_point(env: Mapping[str, str]) -> dict[str, Value]:
    """The options of launchers that the environment sets."""
    return {option: env[name] for name, option in _MASTER.items() if env.get(name)}


def numa_env(options: Mapping[str, Value], request: Request, accelerator: Accelerator) -> dict[str, str]:
    """What tells the ranks to bind themselves to a part of their host; nothing where they shall not.

    Args:
        options: the section `direct:`.
    """
    wish = request.numa or str(options.get("numa", "off"))
    return {NUMA: f"{'auto' if wish == 'auto' else 'on'}:{accelerator}"} if wish in ("on", "true", "auto") else {}
