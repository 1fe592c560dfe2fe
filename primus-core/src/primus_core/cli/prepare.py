"""From the arguments of a command to a checked plan and what starts it."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping

from attrs import evolve, frozen

from primus_core import discovery
from primus_core.cli.launchoptions import asked_env, kept_references
from primus_core.cli.masking import masking
from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment, Leaf, Value
from primus_core.hooks import HostPlugins
from primus_core.nodes.place import Place, place_of
from primus_core.outcome import Finding
from primus_core.pipeline import Judged, Scope, judge
from primus_core.plan import RunPlan, Submission
from primus_core.planning.accelerators import find_accelerators
from primus_core.planning.hosts import hosts_of_file, hosts_of_words, refuse_hosts
from primus_core.planning.launcheroptions import later_options, launcher_options
from primus_core.planning.make import Request, secret_env
from primus_core.planning.make import asked_env as planned_env
from primus_core.planning.refusals import refuse_used
from primus_core.resolve import read_launcher_file, resolve, with_defaults
from primus_core.rundir import RunDir, new_run_id


@frozen(kw_only=True)
class Prepared:
    """A plan that may start: no check found an error."""

    plan: RunPlan
    judged: Judged | None = None
    """None for what has no experiment."""
    place: Place | None = None
    """Where the user starts each of several nodes: this one; None otherwise."""
    hosts: HostPlugins
    """The plugins of the run."""
    submission: Submission
    warnings: tuple[Finding, ...]
    env: Mapping[str, str]
    """Environment that the processes inherit: the shell's and the secrets that were asked for."""
    asked_secrets: tuple[str, ...]
    """Names of the secrets of ``env:`` and ``--env``."""

    @property
    def resolved(self) -> Experiment | None:
        """The plan's experiment, written so that it means the same in another shell."""
        from primus_core.explain.resolved import Known, settled  # here: a dry run writes no experiment
        from primus_core.explain.vocabulary import vocabulary

        if self.judged is None or self.plan.experiment is None:
            return None
        words = vocabulary(self.judged.hosts, self.plan.target.library_version)
        known = {self.judged.module.name: Known.of(words, self.plan.translation)}
        return settled(self.plan.experiment, known)


def prepare(args: argparse.Namespace, shell: Mapping[str, str]) -> Prepared:
    """Everything before the first process; writes nothing.

    Raises:
        PrimusError: anything is wrong with arguments, experiment, plugins or layout.
    """
    plugins = discovery.scan()
    request = make_request(args, shell, plugins)
    with masking({**shell, **request.env}):
        return _prepared(args, shell, request, plugins)


def _prepared(
    args: argparse.Namespace, shell: Mapping[str, str], request: Request, plugins: discovery.Plugins
) -> Prepared:
    experiment = resolved(args.experiment, args, {**shell, **request.env}, plugins)
    for launcher, options in launcher_defaults(args, shell, request.launcher).items():
        experiment = with_defaults(experiment, launcher, options)
    request = evolve(request, hosts=_hosts(args, experiment, request))
    place = _place(experiment, request)
    if place is None or place.leads:
        refuse_used(RunDir.of(experiment.folder, request.run_id))
    scope = Scope(
        request=request,
        found=find_accelerators(),
        nodes=place.nodes if place else max(1, len(request.hosts)),
        preflight=not args.skip_preflight,
        strict=args.strict,
    )
    judged = judge(experiment, plugins, scope)
    raise_all(judged.failures)
    if judged.plan is None:
        raise RuntimeError("nothing is wrong and there is no plan")
    plan, secrets = judged.plan, secret_env(experiment, request)
    return Prepared(
        plan=plan,
        judged=judged,
        place=place,
        hosts=judged.hosts,
        submission=judged.hosts.launch(plan.job),
        warnings=(*kept_references(args, shell), *judged.warnings),
        env={**shell, **secrets},
        asked_secrets=tuple(sorted(secrets)),
    )


def resolved(path: str, args: argparse.Namespace, shell: Mapping[str, str], plugins: discovery.Plugins) -> Experiment:
    """One experiment file under the command line's overrides."""
    for folder in args.preset_path:
        if not os.path.isdir(folder):
            raise ConfigError(f"--preset-path {folder}: no such folder", remedy="check the path")
    framework = [f"framework={args.framework}"] if args.framework is not None else []
    return resolve(
        path,
        overrides=[*args.overrides, *framework],
        env=shell,
        preset_dirs=lambda framework: (*args.preset_path, *discovery.preset_dirs(plugins, framework)),
        cwd=os.getcwd(),
    )


def launcher_defaults(
    args: argparse.Namespace, shell: Mapping[str, str], launcher: str
) -> dict[str, Mapping[str, Leaf]]:
    """What the launcher's file says of `direct` and of the launcher, but for what counts before an experiment is read.

    Raises:
        ConfigError: the file is wrong.
    """
    if not args.launcher_config:
        return {}
    sections = read_launcher_file(args.launcher_config, shell, os.getcwd())
    return {
        name: later_options(sections[name]) if name == "direct" else sections[name]
        for name in ("direct", launcher)
        if name in sections
    }


def make_request(args: argparse.Namespace, shell: Mapping[str, str], plugins: discovery.Plugins) -> Request:
    """What the options ask of a run.

    Raises:
        ConfigError: an option has no meaning, or contradicts another.
    """
    if args.nproc is not None and args.nproc < 1:
        raise ConfigError(f"--nproc {args.nproc}", why="a run has at least one rank", remedy="give 1 or more")
    return Request(
        launcher=_launcher(args, plugins),
        run_id=_run_id(args.run_id) if args.run_id is not None else new_run_id(),
        ranks_per_node=1 if args.single and args.nproc is None else args.nproc,
        env=asked_env(args, shell),
        numa=args.numa,
        shell=shell,
        allowed_drift=tuple(args.allow_patch_drift),
        cwd=os.getcwd(),
    )


def _place(experiment: Experiment, request: Request) -> Place | None:
    """Which of several nodes this is; other launchers than `direct` start all of them themselves."""
    if request.launcher not in ("direct", "single"):
        return None
    return place_for(request.launcher, planned_env(experiment, request), launcher_options(experiment, "direct"))


def place_for(launcher: str, env: Mapping[str, str], options: Mapping[str, Value]) -> Place | None:
    """Which of several nodes this is, by the environment and the section ``direct:``.

    Raises:
        ConfigError: it is none, or there are several and the launcher starts one.
    """
    place = place_of(env, options)
    if place is not None and launcher == "single":
        why = f"NNODES is {place.nodes}, and the launcher 'single' starts one rank on one node"
        raise ConfigError("one rank on several nodes", why=why, remedy="unset NNODES, or take the launcher direct")
    return place


def _hosts(args: argparse.Namespace, experiment: Experiment, request: Request) -> tuple[str, ...]:
    """Where the launcher `ssh` shall start ranks: the command line counts more than the experiment."""
    given = "--hosts" if args.hosts is not None else "--hostfile" if args.hostfile is not None else ""
    if request.launcher != "ssh":
        if given:
            raise refuse_hosts(request.launcher, given)
        return ()
    if args.hosts is not None and args.hostfile is not None:
        raise ConfigError("--hosts and --hostfile", remedy="leave one of them out")
    options = launcher_options(experiment, "ssh")
    words, file = (args.hosts, args.hostfile) if given else (options.get("hosts"), options.get("hostfile"))
    if file is not None and words is None:
        return tuple(map(str, hosts_of_file(str(file), request.cwd)))
    named = words.split(",") if isinstance(words, str) else list(map(str, words if isinstance(words, list) else []))
    return tuple(map(str, hosts_of_words(named, given or "ssh.hosts")))


def _run_id(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) or name == "latest":
        why = "letters, digits, dots, dashes and underscores, up to 100; `latest` names the newest run"
        raise ConfigError(f"--run-id {name!r} is no name of a run", why=why, remedy="leave it out, or choose another")
    return name


def _launcher(args: argparse.Namespace, plugins: discovery.Plugins) -> str:
    if args.single and args.launcher not in (None, "single"):
        raise ConfigError(f"--single and --launcher {args.launcher}", remedy="leave one of them out")
    installed = default_launcher(plugin.name for plugin in plugins.of("primus.launchers"))
    return "single" if args.single else args.launcher or installed


def default_launcher(installed: Iterable[str]) -> str:
    """The launcher of a run that names none."""
    return "direct" if "direct" in installed else "single"
