"""Putting a plan together."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.contract.markers import CONTRACT
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Module, Value
from primus_core.plan import Accelerator, RunPlan, Settings, Target, Task, Translation
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request, make_job, numa_env
from primus_core.planning.launcheroptions import sections_of
from primus_core.planning.mounts import experiment_mounts
from primus_core.planning.ranks import ranks_per_node
from primus_core.planning.secrets import secret_names, split_secrets, without_secrets
from primus_core.rundir import RunDir


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
    return ranks_per_node(
        request.ranks_per_node,
        request.launcher,
        sections_of(experiment, request.cwd),
        env=asked_env(experiment, request),
        kind=kind,
        found=found,
        origins=experiment.launchers,
    )


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
    shown = without_secrets(experiment)
    sections = sections_of(shown, request.cwd)
    bound = numa_env(sections.get("direct", {}), request, target.accelerator)
    public, secrets = split_secrets({**needed, **bound, **_asked(experiment, request)})
    return RunPlan(
        run_id=request.run_id,
        run_dir=str(rundir.path),
        target=target,
        task=task,
        prepare=prepare,
        framework=module.framework,
        module=module.name,
        experiment=shown,
        settings=settings,
        translation=translation,
        job=make_job(
            experiment.exp_name,
            task,
            rundir=rundir,
            target=target,
            request=request,
            env=public,
            asked=asked_env(experiment, request),
            sections=sections,
            secrets=tuple(secrets),
            mounts=experiment_mounts(experiment, module, prepare, translation.native, request.cwd)
            if request.in_container
            else (),
        ),
        launcher=request.launcher,
        distributions=distributions,
        allowed_drift=request.allowed_drift,
        preflight=request.preflight,
        secrets=secret_names({**request.shell, **_asked(experiment, request)}),
        contract=CONTRACT,
    )


def known_env(plan: RunPlan, request: Request) -> dict[str, str]:
    """The environment of the plan's ranks, as far as it is known before they start."""
    return {**(request.shell if request.shell_reaches_ranks else {}), **plan.job.env}


def secret_env(experiment: Experiment, request: Request) -> dict[str, str]:
    """Secrets of ``env:`` and ``--env``, to be inherited by the ranks."""
    return split_secrets(_asked(experiment, request))[1]


def _asked(experiment: Experiment, request: Request) -> dict[str, str]:
    """The environment of a launcher's file, of ``env:`` and, strongest, of ``--env``."""
    in_file = {name: str(leaf.value) for name, leaf in experiment.env.items() if leaf.value is not None}
    return {**request.launcher_env, **in_file, **request.env}
