"""From the arguments of `primus projection` to a plan and its model's shape, as often as it is asked."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from attrs import evolve

from primus_core import discovery
from primus_core.cli.masking import masking
from primus_core.cli.prepare import (
    accelerators_for,
    launcher_sections,
    make_request,
    nodes_of,
    place_for,
    placed,
    resolved,
)
from primus_core.cli.projection.published import departures
from primus_core.errors import ConfigError, PrimusError, raise_all
from primus_core.experiment import Experiment, Value
from primus_core.outcome import Finding
from primus_core.pipeline import Judged, Scope, judge
from primus_core.plan import RunPlan
from primus_core.planning.assumed import meant, names_cpu
from primus_core.planning.job import Request
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.make import asked_env
from primus_core.planning.sections import SLURM
from primus_core.projection.changing import Setting
from primus_core.projection.project import Projection, project
from primus_core.projection.routing import routes, unbalanced
from primus_core.records import frozen
from primus_core.resolve import with_sections
from primus_core.shape import ModelShape


@frozen(kw_only=True)
class Asked:
    """One command line, whose experiment can be planned under more settings than it has."""

    args: argparse.Namespace
    shell: Mapping[str, str]
    plugins: discovery.Plugins

    @classmethod
    def of(cls, args: argparse.Namespace, shell: Mapping[str, str]) -> Asked:
        return cls(args=args, shell=shell, plugins=discovery.scan())

    def judged(self, settings: Setting, ranks: int | None) -> Judged:
        """A plan that may start, but for what this host lacks.

        Args:
            settings: parameters beside those of the command line, and stronger.
            ranks: in all; None: as the launcher's options say, or as few as the layout needs.

        Raises:
            PrimusError: anything is wrong with arguments, experiment or layout.
        """
        words = [*self.args.overrides, *(f"{name}={value}" for name, value in settings.items())]
        args = argparse.Namespace(**{**vars(self.args), "overrides": words})
        request = make_request(args, self.shell, self.plugins)
        with masking({**self.shell, **request.env}):
            found = self._judged(args, request, ranks)
            raise_all([*found.errors, *(one.as_error() for one in found.findings if _hinders(one))])
        return found

    def projected(self, settings: Setting, ranks: int) -> Projection | None:
        """Under other settings, on as many ranks; None where such a run is refused."""
        try:
            judged = self.judged(settings, ranks)
            return project(self.shape_of(judged, planned(judged)))
        except PrimusError:
            return None

    def shape_of(self, judged: Judged, plan: RunPlan) -> ModelShape:
        """The plan's model, its experts as busy as the command line says.

        Raises:
            ConfigError: the back end does not tell it, or not what depends on how busy they are; or they cannot be so
                busy.
        """
        shape, factor = _told(judged, plan), self.args.moe_load_factor
        if factor > 1 and not routes(shape):
            why = (
                "no rank has experts that get tokens of others, or the back end does not tell which sizes depend on it"
            )
            remedy = "leave it out, or set expert_model_parallel_size"
            raise ConfigError(f"--moe-load-factor {factor:g} changes nothing", why=why, remedy=remedy)
        if factor > 1 and factor > (ranks := shape.group("expert")):
            why = f"a rank of {ranks} that share the experts gets {ranks} times the mean where it gets all tokens"
            raise ConfigError(f"--moe-load-factor {factor:g}", why=why, remedy=f"give {ranks} or less")
        shape = evolve(shape, notes=(*shape.notes, *departures(judged.module)))
        return unbalanced(shape, factor)

    def _judged(self, args: argparse.Namespace, request: Request, ranks: int | None) -> Judged:
        experiment = resolved(args.experiment, args, {**self.shell, **request.env}, self.plugins)
        sections = launcher_sections(args, self.shell, experiment.launchers)
        request, sections = placed(request, args.mode, sections)
        experiment = with_sections(experiment, sections)
        return judge(experiment, self.plugins, self._scope(experiment, request, ranks))

    def _scope(self, experiment: Experiment, request: Request, ranks: int | None) -> Scope:
        typed = typed_sections(experiment.launchers)
        found = meant(accelerators_for(request, typed))
        if ranks is None:
            nodes = self._nodes(experiment, request, typed)
        else:
            per_node = _ranks_per_node(ranks, request.ranks_per_node, found.count)
            request, nodes = evolve(request, ranks_per_node=per_node), ranks // per_node
        return Scope(
            request=request,
            found=found,
            nodes=nodes,
            launcher=False,
            preflight=False,
            files=False,
            strict=self.args.strict,
        )

    def _nodes(self, experiment: Experiment, request: Request, typed: Mapping[str, Mapping[str, Value]]) -> int | None:
        """Those that options or the environment name; on CPUs one; else None, also in a mode that names none."""
        place = place_for(request.launcher, asked_env(experiment, request), typed.get("direct", {}))
        slurm = request.launcher == SLURM and ("nodes" in typed.get(SLURM, {}) or "SLURM_JOB_ID" in self.shell)
        if place is not None or slurm:
            return nodes_of(request, typed, place)
        if self.args.hosts is not None:
            return len(self.args.hosts.split(","))
        return 1 if names_cpu(experiment) else None


def planned(judged: Judged) -> RunPlan:
    """The plan of an experiment in which nothing is wrong."""
    if judged.plan is None:
        raise RuntimeError("nothing is wrong and there is no plan")
    return judged.plan


def _told(judged: Judged, plan: RunPlan) -> ModelShape:
    shape = judged.hosts.model_shape(plan)
    if shape is None:
        why = "it tells nothing of the model's tensors (hook `model_shape`)"
        raise ConfigError(f"the back end {plan.framework} has no projection", why=why, remedy="ask its makers for it")
    return shape


def _ranks_per_node(ranks: int, asked: int | None, devices: int) -> int:
    """As many as a node has, if they divide the ranks; else the next smaller number that does.

    Raises:
        ConfigError: the number that was asked for does not.
    """
    if asked is None:
        return next(number for number in range(min(ranks, devices), 0, -1) if ranks % number == 0)
    if ranks % asked:
        why = f"{ranks} ranks are no whole number of nodes with {asked} ranks each"
        raise ConfigError(f"--gpus {ranks} --nproc {asked}", why=why, remedy="give a multiple, or leave --nproc out")
    return asked


def _hinders(finding: Finding) -> bool:
    """An error of the experiment, or of what the back end can build; what is missing here matters to no projection."""
    return finding.severity == "error" and finding.cause != "dependency"
