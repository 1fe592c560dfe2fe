"""From the arguments of a command to a checked plan and what starts it."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import evolve

from primus_core import discovery
from primus_core.cli.launchoptions import asked_env, kept_references
from primus_core.cli.masking import masking
from primus_core.cli.modes import Mode
from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment, Sections, Value
from primus_core.hooks import HostPlugins
from primus_core.nodes.place import Place, place_of
from primus_core.outcome import Finding
from primus_core.plan import ON_THIS_HOST, RunPlan, Submission
from primus_core.planning.accelerators import Found, find_accelerators
from primus_core.planning.assumed import meant_by
from primus_core.planning.hosts import hosts_of_file, hosts_of_words, refuse_hosts
from primus_core.planning.job import Request
from primus_core.planning.launcheroptions import later_options, typed_sections
from primus_core.planning.make import asked_env as planned_env
from primus_core.planning.make import secret_env
from primus_core.planning.nodefiles import without_empty_files
from primus_core.planning.ranks import scheduled_nodes
from primus_core.planning.refusals import refuse_used
from primus_core.planning.sections import (
    SLURM,
    container_env,
    image_layer,
    put_together,
    split_command_line,
    unused_variable,
)
from primus_core.planning.volumes import on_host, with_host_paths
from primus_core.records import frozen
from primus_core.resolve import SYSTEM_DEFAULT, resolve, with_sections
from primus_core.rundir import RunDir, new_run_id

if TYPE_CHECKING:
    from primus_core.pipeline import Judged


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
        if self.judged is None or self.plan.experiment is None:
            return None
        from primus_core.explain.resolved import Known, settled  # here: a dry run writes no experiment
        from primus_core.explain.vocabulary import vocabulary

        words = vocabulary(self.judged.hosts, self.plan.target.library_version)
        known = {self.judged.module.name: Known.of(words, self.plan.translation)}
        return settled(without_output_script(self.plan.experiment), known)


def without_output_script(experiment: Experiment) -> Experiment:
    """The experiment for other runs: where this one's job script goes is not for them."""
    kept = {key: leaf for key, leaf in experiment.launchers.get(SLURM, {}).items() if key != "output_script"}
    return evolve(experiment, launchers={**experiment.launchers, SLURM: kept}) if kept else experiment


def prepare(args: argparse.Namespace, shell: Mapping[str, str], *, starts: bool = True) -> Prepared:
    """Everything before the first process; writes nothing.

    Args:
        starts: the run is to be started here; else it is only told what this host lacks to start it.

    Raises:
        PrimusError: anything is wrong with arguments, experiment, plugins or layout.
    """
    plugins = discovery.scan()
    request = make_request(args, shell, plugins)
    with masking({**shell, **request.env}):
        return _prepared(args, shell, request, plugins, starts=starts)


def _prepared(
    args: argparse.Namespace, shell: Mapping[str, str], request: Request, plugins: discovery.Plugins, *, starts: bool
) -> Prepared:
    from primus_core.pipeline import Scope, judge  # here: tasks without an experiment are not judged so

    experiment = resolved(_file(args, shell, request), args, {**shell, **request.env}, plugins)
    request, sections, typed = located(args, shell, request, experiment.launchers)
    request = evolve(request, preflight="off" if args.skip_preflight else args.preflight)
    experiment = with_host_paths(with_sections(experiment, sections), _volumes(typed))
    place = place_for(request.launcher, planned_env(experiment, request), typed.get("direct", {}))
    if place is None or place.leads:
        refuse_used(RunDir.of(experiment.folder, request.run_id))
    scope = Scope(
        request=request,
        found=accelerators_for(request, typed),
        nodes=nodes_of(request, typed, place),
        preflight=request.preflight != "off",
        strict=args.strict,
    )
    judged = judge(experiment, plugins, scope)
    if not starts_now(starts, typed):
        judged = evolve(judged, findings=tuple(as_warning(one, request.launcher) for one in judged.findings))
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
        warnings=(*kept_references(args, shell), *unused_variable(sections), *judged.warnings),
        env={**shell, **secrets},
        asked_secrets=tuple(sorted(secrets)),
    )


def located(
    args: argparse.Namespace, shell: Mapping[str, str], request: Request, sections: Sections
) -> tuple[Request, Sections, Mapping[str, Mapping[str, Value]]]:
    """The request with what starts the ranks, and where; the options of launchers that count for it, as said and typed.

    Args:
        sections: the experiment's.

    Raises:
        ConfigError: an option is wrong, or contradicts another.
    """
    request, used = placed(request, args.mode, launcher_sections(args, shell, sections))
    typed = typed_sections(used)
    return evolve(request, hosts=_hosts(args, typed, request)), used, typed


def starts_now(starts: bool, typed: Mapping[str, Mapping[str, Value]]) -> bool:
    """Whether this command is to start the ranks; not where a job's script is all that is wanted."""
    return starts and "output_script" not in typed.get(SLURM, {})


def _file(args: argparse.Namespace, shell: Mapping[str, str], request: Request) -> str:
    """The experiment's file on this host, also where the user names it as the container has it."""
    path = str(args.experiment)
    if os.path.exists(path):
        return path
    _, sections = placed(request, args.mode, launcher_sections(args, shell, {}))
    return on_host(path, _volumes(typed_sections(sections)))


def _volumes(typed: Mapping[str, Mapping[str, Value]]) -> list[str]:
    volumes = typed.get("container", {}).get("volume")
    return list(map(str, volumes)) if isinstance(volumes, list) else []


def as_warning(finding: Finding, launcher: str) -> Finding:
    """The finding where nothing is started: that a launcher's programs are not here is a warning then."""
    lacks = finding.severity == "error" and finding.cause == "dependency"
    return evolve(finding, severity="warning") if lacks and finding.check.startswith(f"{launcher}.") else finding


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


def launcher_sections(args: argparse.Namespace, shell: Mapping[str, str], experiment: Sections) -> Sections:
    """The options of all launchers.

    Strongest first: those of modes, ``container.image=X`` and its like on the command line, DOCKER_IMAGE, those of the
    experiment, those of files.

    Raises:
        ConfigError: one place says one option twice.
    """
    files, command_line = split_command_line(experiment)
    modes = args.mode.sections if args.mode else {}
    layers = [args.sections, files, image_layer(shell), command_line, modes]
    merged = put_together(layers, os.getcwd(), shell.get("HOME", ""))
    return {**merged, "direct": later_options(merged.get("direct", {}), files=args.sections.get("direct", {}))}


def names_image(sections: Sections) -> bool:
    """Whether the user named an image, wherever; the one that comes with Primus does not count."""
    leaf = sections.get("container", {}).get("image")
    return leaf is not None and bool(leaf.value) and leaf.origin.file != SYSTEM_DEFAULT


def placed(request: Request, mode: Mode | None, sections: Sections) -> tuple[Request, Sections]:
    """The request with what starts the ranks on each node, and the sections that this run reads.

    Inside of Slurm it is a container where the user named an image, unless the command line says.

    Raises:
        ConfigError: a file that names nodes of Slurm cannot be read, or names none.
    """
    wished = mode.inside if mode and mode.inside else "container" if names_image(sections) else "direct"
    inside = wished if request.launcher == SLURM else "direct"
    request = evolve(request, inside=inside)
    read = {"direct", request.launcher, *(["container"] if request.in_container else [])}
    env = {**container_env(sections.get("container", {})), **request.launcher_env} if request.in_container else {}
    used = {name: leaves for name, leaves in sections.items() if name in read}
    if SLURM in used:
        used[SLURM] = without_empty_files(used[SLURM])
    return evolve(request, launcher_env=env), used


def accelerators_for(request: Request, typed: Mapping[str, Mapping[str, Value]]) -> Found:
    """What ``accelerator: auto`` means: the devices of this host, unless the ranks run elsewhere or in a container."""
    here = find_accelerators()
    elsewhere = request.in_container or request.launcher == SLURM
    return meant_by(request.launcher, request.inside, typed, here) if elsewhere else here


def nodes_of(request: Request, typed: Mapping[str, Mapping[str, Value]], place: Place | None) -> int:
    """How many nodes the run has."""
    if request.launcher == SLURM:
        return scheduled_nodes(typed.get(SLURM, {}), request.shell)
    return place.nodes if place else max(1, len(request.hosts))


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
        launcher_env=args.exported,
        numa=args.numa,
        shell=shell,
        allowed_drift=tuple(args.allow_patch_drift),
        cwd=os.getcwd(),
    )


def place_for(launcher: str, env: Mapping[str, str], options: Mapping[str, Value]) -> Place | None:
    """Which of several nodes that the user starts this is, by the environment and the section ``direct:``.

    Other launchers start all nodes themselves.

    Raises:
        ConfigError: it is none, or there are several and the launcher starts one.
    """
    if launcher not in ON_THIS_HOST:
        return None
    place = place_of(env, options)
    if place is not None and launcher == "single":
        why = f"NNODES is {place.nodes}, and the launcher 'single' starts one rank on one node"
        raise ConfigError("one rank on several nodes", why=why, remedy="unset NNODES, or take the launcher direct")
    return place


def _hosts(args: argparse.Namespace, typed: Mapping[str, Mapping[str, Value]], request: Request) -> tuple[str, ...]:
    """Where the launcher `ssh` shall start ranks: the command line counts more than its section."""
    given = "--hosts" if args.hosts is not None else "--hostfile" if args.hostfile is not None else ""
    if request.launcher != "ssh":
        if given:
            raise refuse_hosts(request.launcher, given)
        return ()
    if args.hosts is not None and args.hostfile is not None:
        raise ConfigError("--hosts and --hostfile", remedy="leave one of them out")
    options = typed.get("ssh", {})
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
    if args.mode:
        return str(args.mode.launcher)
    if args.single and args.launcher not in (None, "single"):
        raise ConfigError(f"--single and --launcher {args.launcher}", remedy="leave one of them out")
    installed = default_launcher(plugin.name for plugin in plugins.of("primus.launchers"))
    return "single" if args.single else args.launcher or installed


def default_launcher(installed: Iterable[str]) -> str:
    """The launcher of a run that names none."""
    return "direct" if "direct" in installed else "single"
