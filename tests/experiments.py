"""Experiments for a back end, made without files, and what its host makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from attrs import evolve, frozen

from primus_core.experiment import Experiment, Layer, Leaf, Module, Origin, Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Accelerator, RunPlan, Settings, Target, Translation
from primus_core.planning.job import Request
from primus_core.planning.make import make_plan
from primus_core.planning.settings import core_settings

FILE = "exp.yaml"
FIRST_LINE = 10
"""Of a module's parameters, which stand in one line each."""


def experiment_of(module: Module, workspace: str = "/workspace") -> Experiment:
    return Experiment(
        file=FILE,
        work_group="team",
        user_name="me",
        exp_name="exp",
        workspace=workspace,
        modules={module.name: module},
    )


def line_of(params: Mapping[str, Value], name: str) -> str:
    """Where messages say that a parameter stands."""
    return f"{FILE}:{FIRST_LINE + list(params).index(name)}"


@frozen(kw_only=True)
class Host:
    """A back end's host side."""

    module: ModuleType
    """Has its hooks."""
    framework: str
    version: str
    """Of the library, where a test asks for no other."""

    def module_of(self, params: Mapping[str, Value], layers: Mapping[str, Layer] | None = None) -> Module:
        """A module whose parameters stand in lines 10, 11, 12 ... of ``exp.yaml``."""
        leaves = {
            name: Leaf(value=value, origin=Origin(file=FILE, line=line, layer=(layers or {}).get(name, "overrides")))
            for line, (name, value) in enumerate(params.items(), start=FIRST_LINE)
        }
        return Module(
            name="pre_trainer",
            framework=self.framework,
            framework_origin=Origin(file=FILE, line=7),
            config="pre_trainer.yaml",
            model="tiny.yaml",
            params=leaves,
        )

    def target_of(self, accelerator: Accelerator = "cpu", ranks: int = 1, version: str = "") -> Target:
        return Target(accelerator=accelerator, library_version=version or self.version, ranks_per_node=ranks)

    def translate(
        self,
        params: Mapping[str, Value],
        layers: Mapping[str, Layer] | None = None,
        *,
        ranks: int = 1,
        accelerator: Accelerator = "cpu",
        version: str = "",
    ) -> Translation:
        module = self.module_of(params, layers)
        return self._translated(experiment_of(module), module, self.target_of(accelerator, ranks, version))

    def plan_of(
        self,
        params: Mapping[str, Value],
        layers: Mapping[str, Layer] | None = None,
        *,
        ranks: int = 1,
        accelerator: Accelerator = "cpu",
        version: str = "",
        workspace: str = "/workspace",
        settings: Mapping[str, Value] | None = None,
    ) -> RunPlan:
        """The plan of a run, as `primus run` makes it."""
        module = self.module_of(params, layers)
        experiment, target = experiment_of(module, workspace), self.target_of(accelerator, ranks, version)
        return make_plan(
            experiment,
            module,
            target=target,
            settings=Settings(values=settings or {}),
            translation=self._translated(experiment, module, target),
            prepare=(),
            request=Request(launcher="single", run_id="run"),
            distributions={},
        )

    def findings(
        self,
        params: Mapping[str, Value],
        layers: Mapping[str, Layer] | None = None,
        *,
        ranks: int = 1,
        version: str = "",
    ) -> list[Finding]:
        """What the check before a start says that opens no file."""
        return self._checked(self.plan_of(params, layers, ranks=ranks, version=version), Where.SUBMIT)

    def findings_of_files(self, params: Mapping[str, Value], *, ranks: int = 1) -> list[Finding]:
        """What the check says that looks at the files which a run would read; core's parameters count too."""
        plan = self.plan_of(params, ranks=ranks)
        assert plan.experiment
        settings = core_settings(plan.experiment.modules["pre_trainer"])
        return self._checked(evolve(plan, settings=settings), Where.FILES)

    def _translated(self, experiment: Experiment, module: Module, target: Target) -> Translation:
        translation: Translation | None = self.module.translate_config(experiment, module, target)
        assert translation is not None
        return translation

    def _checked(self, plan: RunPlan, where: Where) -> list[Finding]:
        return list(self.module.preflight_check(plan, where))
