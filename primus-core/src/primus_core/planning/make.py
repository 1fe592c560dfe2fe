"""Putting a plan together."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from attrs import field, frozen

from primus_core.contract.markers import CONTRACT
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Module, Value
from primus_core.plan import Accelerator, Job, RunPlan, Settings, Target, Task, Translation
from primus_core.planning.accelerators import ASSUMED_PER_NODE, Found
from primus_core.planning.launcheroptions import launcher_options
from primus_core.planning.secrets import secret_names, split_secrets, without_secrets
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
    ranks_per_node: int | None = None
    env: Mapping[str, str] = field(factory=dict)
    """``--env`` of the command line."""
    shell: Mapping[str, str] = field(factory=dict)
    """The environment of ``primus`` itself."""
    numa: str | None = None
    """``on`` or ``off`` of the command line; None: as the section `direct:` says."""
    allowed_drift: tuple[str, ...] = ()
    cwd: str = "."
    hosts: tuple[str, ...] = ()
    """Where the launcher `ssh` starts the ranks; empty for the others."""


def only_module(experiment: Experiment) -> Module:
    """The module to run.

    Raises:
        ConfigError: the experiment has several modules.
    """
    modules = list(experiment.modules.values())
    if len(modules) != 1:
        raise ConfigError(
            f"{len(modules)} modules in one experiment: {', '.join(experiment.modules)}",
            where=experiment.file,
            why="a run trains one module",
            remedy="keep one of them in this file",
        )
    return modules[0]


def make_target(experiment: Experiment, settings: Settings, request: Request, found: Found, library: str) -> Target:
    """Accelerator, library version and world size of a run on this host."""
    accelerator = settings["accelerator"]
    kind: Accelerator = found.kind if accelerator == "auto" else _known(accelerator)
    return Target(
        accelerator=kind,
        library_version=library,
        ranks_per_node=_ranks_per_node(experiment, request, kind, found),
    )


def _known(accelerator: Value) -> Accelerator:
    table: dict[Value, Accelerator] = {"cpu": "cpu", "cuda": "cuda", "rocm": "rocm"}
    return table[accelerator]


def _ranks_per_node(experiment: Experiment, request: Request, kind: Accelerator, found: Found) -> int:
    """``--nproc``, GPUS_PER_NODE, the ``gpus_per_node`` of the launcher's section, the devices of the host."""
    if request.ranks_per_node is not None:
        return request.ranks_per_node
    if given := asked_env(experiment, request).get("GPUS_PER_NODE"):
        return gpus_per_node(given)
    section = "ssh" if request.hosts else "direct"
    asked = launcher_options(experiment, section).get("gpus_per_node")
    if isinstance(asked, int):
        if asked < 1:
            raise ConfigError(
                f"{section}.gpus_per_node is {asked}",
                where=str(experiment.launchers[section]["gpus_per_node"].origin),
                remedy="give a number of ranks, 1 or more",
            )
        return asked
    if kind == "cpu":
        return 1
    return found.count if found.kind == kind and found.count else ASSUMED_PER_NODE


def gpus_per_node(text: str) -> int:
    """The value of GPUS_PER_NODE.

    Raises:
        ConfigError: it is no number of ranks.
    """
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise ConfigError(f"GPUS_PER_NODE is {text!r}", why="it is a number of ranks", remedy="give 1 or more, or unset it")


def asked_env(experiment: Experiment, request: Request) -> dict[str, str]:
    """The environment that the ranks will have, as far as the shell and the user tell."""
    return {**request.shell, **_asked(experiment, request)}


def make_plan(
    experiment: Experiment,
    module: Module,
    *,
    target: Target,
    settings: Settings,
    translation: Translation,
    prepare: tuple[Task, ...],
    request: Request,
    distributions: Mapping[str, str],
) -> RunPlan:
    """The plan of a training run. Secrets are in it by name only."""
    rundir = RunDir.of(experiment.folder, request.run_id)
    task = Task(kind="train", entry=translation.entry, ranks_per_node=target.ranks_per_node)
    needed = {name: value for name, value in translation.environment.items() if name not in request.shell}
    bound = numa_env(launcher_options(experiment, "direct"), request, target.accelerator)
    public, _ = split_secrets({**needed, **bound, **_asked(experiment, request)})
    return RunPlan(
        run_id=request.run_id,
        run_dir=str(rundir.path),
        target=target,
        task=task,
        prepare=prepare,
        framework=module.framework,
        module=module.name,
        experiment=without_secrets(experiment),
        settings=settings,
        translation=translation,
        job=_job(experiment, task, rundir, target, request, public),
        launcher=request.launcher,
        distributions=distributions,
        allowed_drift=request.allowed_drift,
        secrets=secret_names({**request.shell, **_asked(experiment, request)}),
        contract=CONTRACT,
    )


def secret_env(experiment: Experiment, request: Request) -> dict[str, str]:
    """Secrets of ``env:`` and ``--env``, to be inherited by the ranks."""
    return split_secrets(_asked(experiment, request))[1]


def numa_env(options: Mapping[str, Value], request: Request, accelerator: Accelerator) -> dict[str, str]:
    """What tells the ranks to bind themselves to a part of their host; nothing where they shall not.

    Args:
        options: the section `direct:`.
    """
    wish = request.numa or str(options.get("numa", "off"))
    return {NUMA: f"{'auto' if wish == 'auto' else 'on'}:{accelerator}"} if wish in ("on", "true", "auto") else {}


def _asked(experiment: Experiment, request: Request) -> dict[str, str]:
    """The environment of ``env:`` and, stronger, of ``--env``."""
    in_file = {name: str(leaf.value) for name, leaf in experiment.env.items() if leaf.value is not None}
    return {**in_file, **request.env}


def _job(
    experiment: Experiment, task: Task, rundir: RunDir, target: Target, request: Request, env: Mapping[str, str]
) -> Job:
    return Job(
        run_id=request.run_id,
        name=experiment.exp_name,
        task=task,
        python=sys.executable,
        argv=("-m", RANK_MODULE, str(rundir.plan)),
        env=env,
        nodes=target.nodes,
        workdir=request.cwd,
        log_dir=str(rundir.submission),
        options=_options(experiment, request),
    )


def _options(experiment: Experiment, request: Request) -> dict[str, Value]:
    options = launcher_options(experiment, request.launcher)
    if request.hosts:
        options["hosts"] = list(request.hosts)
    return {**options, **meeting_point(asked_env(experiment, request))}


def meeting_point(env: Mapping[str, str]) -> dict[str, Value]:
    """The options of launchers that the environment sets."""
    return {option: env[name] for name, option in _MASTER.items() if env.get(name)}
