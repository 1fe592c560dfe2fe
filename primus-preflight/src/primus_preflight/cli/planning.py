"""The plan of a preflight: of nodes as such, or of those that an experiment will run on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.cli.prepare import Prepared
from primus_core.cli.tasks import Given, prepare_task
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.plan import Accelerator, Mount, RunPlan, Task
from primus_core.planning.job import RANK_MODULE
from primus_core.planning.refusals import refuse_used
from primus_core.planning.task import task_folder, task_plan, task_workspace
from primus_core.rundir import RunDir
from primus_preflight.agent.files import folder_of, node_file

ENTRY = "primus_preflight.agent.node:run"
_NAME = "preflight"


def prepare(
    args: argparse.Namespace, arguments: Mapping[str, Value], env: Mapping[str, str], *, starts: bool
) -> Prepared:
    """Everything before the first process; writes nothing.

    Args:
        arguments: of the agents.
        starts: it is to be started here.

    Raises:
        PrimusError: anything is wrong with arguments, files, plugins or this host.
    """
    arguments = {**arguments, "judge": _judging_words(args)}
    task = Task(kind="preflight", entry=ENTRY, arguments=arguments, runner="plain")
    if args.config is None:
        prepared = prepare_task(args, env, lambda given: _plan(given, task, args.accelerator), starts=starts)
    else:
        prepared = _of_experiment(args, task, env, starts=starts)
    _refuse(prepared, args)
    return prepared


def _judging_words(args: argparse.Namespace) -> list[Value]:
    """Options of `primus preflight report`, for the job of a scheduler, which judges at its end in any folder."""
    files = {"--limits": args.limits, "--baseline": args.baseline}
    return [word for name, path in files.items() if path for word in (name, os.path.abspath(path))]


def _plan(given: Given, task: Task, accelerator: Accelerator | None) -> RunPlan:
    request = given.request
    env = {**request.shell, **request.launcher_env, **request.env}
    return task_plan(
        _NAME,
        task,
        folder=task_folder(_NAME, _NAME, env, request.cwd),
        request=request,
        sections=given.sections,
        accelerator=accelerator or given.found.kind,
        nodes=given.nodes,
        distributions=given.distributions,
        mounts=(Mount(path=task_workspace(env, request.cwd), writable=True),),
    )


def _of_experiment(args: argparse.Namespace, task: Task, env: Mapping[str, str], *, starts: bool) -> Prepared:
    """As the experiment will be started, on the same nodes with the same variables; its own checks come first."""
    from primus_core.cli.arguments import run_parser  # here: most preflights are of no experiment
    from primus_core.cli.prepare import prepare as prepare_run

    asked = [f"accelerator={args.accelerator}"] if args.accelerator else []
    defaults = vars(run_parser("primus run", "").parse_intermixed_args([args.config, *asked]))
    prepared = prepare_run(argparse.Namespace(**{**defaults, **vars(args)}), env, starts=starts)
    planned = prepared.plan
    cwd = planned.job.workdir
    rundir = RunDir.of(task_folder(_NAME, _NAME, env, cwd), planned.run_id)
    job = evolve(
        planned.job,
        name=_NAME,
        task=task,
        argv=("-m", RANK_MODULE, str(rundir.plan)),
        log_dir=str(rundir.submission),
        run_dir=str(rundir.path),
        mounts=(*planned.job.mounts, Mount(path=task_workspace(env, cwd), writable=True)),
    )
    plan = evolve(
        planned,
        run_dir=str(rundir.path),
        target=evolve(planned.target, ranks_per_node=task.ranks_per_node, library_version=""),
        task=task,
        prepare=(),
        framework=None,
        module=None,
        translation=None,
        job=job,
    )
    return evolve(prepared, plan=plan, judged=None, submission=prepared.hosts.launch(job))


def _refuse(prepared: Prepared, args: argparse.Namespace) -> None:
    """Stop before results of two preflights mix, where each node is started by hand."""
    if prepared.place is None:
        return
    if args.run_id is None:
        raise ConfigError(
            "each node is started by hand, and --run-id is not given",
            why="the nodes write into one folder of that name, and wait for nobody to agree on it",
            remedy="give the same --run-id on every node: --run-id check-1",
        )
    if not prepared.place.leads:
        plan = prepared.plan
        refuse_used(RunDir(Path(plan.run_dir)), own=node_file(folder_of(plan), prepared.place.rank))
