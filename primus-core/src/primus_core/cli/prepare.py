"""From the arguments of a command to a checked plan: resolve, translate, plan, check."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from primus_core import discovery, hooks
from primus_core.cli.arguments import parse_env
from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan, Submission
from primus_core.planning.accelerators import find_accelerators
from primus_core.planning.datafiles import data_task
from primus_core.planning.launcheroptions import check_sections
from primus_core.planning.legality import check_layout
from primus_core.planning.make import Request, make_plan, make_target, only_module, secret_env
from primus_core.planning.refusals import refuse_secrets, refuse_used
from primus_core.planning.settings import core_schema, core_settings
from primus_core.resolve import resolve
from primus_core.rundir import RunDir, new_run_id


@frozen(kw_only=True)
class Prepared:
    """A plan that may start: no check found an error."""

    plan: RunPlan
    submission: Submission
    warnings: tuple[Finding, ...]
    env: Mapping[str, str]
    """Environment that the processes inherit: the shell's and the secrets that were asked for."""
    asked_secrets: tuple[str, ...]
    """Names of the secrets of ``env:`` and ``--env``."""


def prepare(args: argparse.Namespace, shell: Mapping[str, str]) -> Prepared:
    """Everything before the first process; writes nothing.

    Raises:
        PrimusError: anything is wrong with arguments, experiment, plugins or layout.
    """
    plugins = discovery.scan()
    experiment = _experiment(args, shell, plugins)
    module = only_module(experiment)
    settings = core_settings(module)
    request = _request(args, shell, plugins)
    sections = check_sections(experiment, request.launcher)
    hosts = hooks.load_host(
        plugins,
        backend=module.framework,
        launcher=request.launcher,
        preflight=not args.skip_preflight,
        backend_where=str(module.framework_origin),
    )
    library = hosts.library_version(settings["backend_version"])
    target = make_target(experiment, settings, request, find_accelerators(), library)
    translation = hosts.translate_config(experiment, module, target)
    hooks.check_translation(module, translation, core_schema().parameters)
    secrets = secret_env(experiment, request)
    refuse_secrets(experiment, {**shell, **secrets})
    refuse_used(RunDir.of(experiment.folder, request.run_id))
    data = data_task(module.params, settings, request.cwd, experiment.workspace)
    plan = make_plan(
        experiment,
        module,
        target=target,
        settings=settings,
        translation=translation,
        prepare=(data,) if data else (),
        request=request,
        distributions=discovery.distributions(),
    )
    findings = (*sections, *check_layout(plan), *hosts.preflight(plan, Where.SUBMIT))
    raise_all([finding.as_error() for finding in findings if finding.severity == "error"])
    return Prepared(
        plan=plan,
        submission=hosts.launch(plan.job),
        warnings=tuple(finding for finding in findings if finding.severity == "warning"),
        env={**shell, **secrets},
        asked_secrets=tuple(sorted(secrets)),
    )


def _experiment(args: argparse.Namespace, shell: Mapping[str, str], plugins: discovery.Plugins) -> Experiment:
    for folder in args.preset_path:
        if not os.path.isdir(folder):
            raise ConfigError(f"--preset-path {folder}: no such folder", remedy="check the path")
    return resolve(
        args.experiment,
        overrides=args.overrides,
        env=shell,
        preset_dirs=lambda framework: (*args.preset_path, *discovery.preset_dirs(plugins, framework)),
        cwd=os.getcwd(),
    )


def _request(args: argparse.Namespace, shell: Mapping[str, str], plugins: discovery.Plugins) -> Request:
    if args.nproc is not None and args.nproc < 1:
        raise ConfigError(f"--nproc {args.nproc}", why="a run has at least one rank", remedy="give 1 or more")
    return Request(
        launcher=args.launcher or _default_launcher(plugin.name for plugin in plugins.of("primus.launchers")),
        run_id=_run_id(args.run_id) if args.run_id is not None else new_run_id(),
        ranks_per_node=args.nproc,
        env=parse_env(args.env, shell),
        shell=shell,
        allowed_drift=tuple(args.allow_patch_drift),
        cwd=os.getcwd(),
    )


def _run_id(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) or name == "latest":
        why = "letters, digits, dots, dashes and underscores, up to 100; `latest` names the newest run"
        raise ConfigError(f"--run-id {name!r} is no name of a run", why=why, remedy="leave it out, or choose another")
    return name


def _default_launcher(installed: Iterable[str]) -> str:
    return "direct" if "direct" in installed else "single"
