"""From a resolved experiment to a checked plan; what `run`, `plan`, `patches` and `config` share. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import evolve, field

from primus_core import discovery, hooks
from primus_core.errors import ErrorGroup, PrimusError
from primus_core.experiment import Experiment, Module
from primus_core.outcome import Finding, Where
from primus_core.plan import Accelerator, RunPlan, Settings, Target, Task, Translation
from primus_core.planning.accelerators import Found
from primus_core.planning.datafiles import check_data_names, data_task
from primus_core.planning.job import Request
from primus_core.planning.launcheroptions import check_sections
from primus_core.planning.legality import check_layout
from primus_core.planning.make import known_env, make_plan, make_target, only_module, secret_env
from primus_core.planning.nodes import layout_asked, nodes_for
from primus_core.planning.patchorder import check_patches
from primus_core.planning.portable import typed_params, with_native_spellings
from primus_core.planning.refusals import refuse_secrets
from primus_core.planning.settings import core_schema, core_settings
from primus_core.planning.unused import has_no_effect, unused_parameters, unused_version
from primus_core.records import frozen

T = TypeVar("T")


@frozen(kw_only=True)
class Scope:
    """What a plan is judged for, and how far."""

    request: Request
    found: Found
    """The accelerators that ``accelerator: auto`` means."""
    accelerator: Accelerator | None = None
    """Instead of what the experiment says."""
    nodes: int | None = 1
    """None: the smallest number that holds the layout."""
    launcher: bool = True
    """Load the launcher, and with it the checks that it may have."""
    preflight: bool = True
    """Load preflight plugins."""
    files: bool = True
    """Look at data and checkpoint files."""
    strict: bool = False
    """A setting that has no effect is an error."""


@frozen(kw_only=True)
class Judged:
    """As much of a plan as the experiment allows, and everything wrong with it."""

    experiment: Experiment
    module: Module
    hosts: hooks.HostPlugins
    target: Target | None = None
    translation: Translation | None = None
    plan: RunPlan | None = None
    errors: tuple[PrimusError, ...] = ()
    """What hindered a step; not among the findings."""
    findings: tuple[Finding, ...] = ()
    """What the checks of the settings and of the plan found, whatever their severity."""

    @property
    def failures(self) -> tuple[PrimusError, ...]:
        """Every reason not to start, each once."""
        found = (finding.as_error() for finding in self.findings if finding.severity == "error")
        return (*self.errors, *found)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "warning")


def judge(experiment: Experiment, plugins: discovery.Plugins, scope: Scope) -> Judged:
    """Settings, translation, plan and findings of an experiment's only module.

    Raises:
        PrimusError: the experiment has several modules, or its back end or launcher cannot be loaded.
    """
    module = only_module(experiment)
    hosts = hooks.load_host(
        plugins,
        backend=module.framework,
        launcher=scope.request.launcher if scope.launcher else None,
        preflight=scope.preflight,
        backend_where=str(module.framework_origin),
    )
    return _Judge(experiment, plugins, module, hosts, scope).judged()


@frozen
class _Judge:
    """Goes on after a step that failed, as far as the next steps do without it, and tells all errors together."""

    experiment: Experiment
    plugins: discovery.Plugins
    module: Module
    hosts: hooks.HostPlugins
    scope: Scope
    errors: list[PrimusError] = field(factory=list)

    def judged(self) -> Judged:
        sections = self._try(lambda: check_sections(self.experiment, self.scope.request.launcher)) or ()
        settings = self._try(lambda: core_settings(self.module)) or Settings(values=core_schema().defaults)
        self._try(lambda: refuse_secrets(self.experiment, self._variables()))
        library = self._try(lambda: self.hosts.library_version(settings["backend_version"]))
        target = self._try(lambda: self._target(settings, library)) if library else None
        if library and target is None:
            self._tell_names_and_types(library)
        target, translation = self._translated(target) if target else (None, None)
        data = self._try(lambda: self._data(settings, translation)) if translation else None
        plan = self._plan(target, settings, translation, data or ()) if target and translation else None
        findings = self._findings(sections, translation, plan)
        return Judged(
            experiment=self.experiment,
            module=self.module,
            hosts=self.hosts,
            target=target,
            translation=translation,
            plan=plan,
            errors=tuple({(str(error), error.why): error for error in self.errors}.values()),
            findings=findings,
        )

    def _tell_names_and_types(self, library: str) -> None:
        """Errors of the parameters where the ranks are not known: any target finds those."""
        target = Target(accelerator="cuda", library_version=library, ranks_per_node=1)
        self._try(lambda: self.hosts.translate_config(self.experiment, self.module, target))

    def _translated(self, target: Target) -> tuple[Target, Translation | None]:
        """The translation, and the target with its number of nodes, which may follow from the layout."""
        if self.scope.nodes is not None:
            return target, self._try(lambda: self._translation(target))
        guess = evolve(target, nodes=nodes_for(layout_asked(self.module.params), target.ranks_per_node))
        translation = self._try(lambda: self._translation(guess))
        nodes = nodes_for(translation.layout, target.ranks_per_node) if translation else guess.nodes
        if nodes == guess.nodes:
            return guess, translation
        wanted = evolve(target, nodes=nodes)
        return wanted, self._try(lambda: self._translation(wanted))

    def _try(self, step: Callable[[], T]) -> T | None:
        try:
            return step()
        except ErrorGroup as group:
            self.errors.extend(group.errors)
        except PrimusError as error:
            self.errors.append(error)
        return None

    def _variables(self) -> dict[str, str]:
        return {**self.scope.request.shell, **secret_env(self.experiment, self.scope.request)}

    def _target(self, settings: Settings, library: str) -> Target:
        if self.scope.accelerator:
            settings = Settings(values={**settings.values, "accelerator": self.scope.accelerator})
        target = make_target(self.experiment, settings, self.scope.request, self.scope.found, library)
        return evolve(target, nodes=self.scope.nodes or 1)

    def _translation(self, target: Target) -> Translation:
        translation = self.hosts.translate_config(self.experiment, self.module, target)
        hooks.check_translation(self.module, translation, core_schema().parameters)
        check_patches(translation.patches, target.accelerator)
        return translation

    def _data(self, settings: Settings, translation: Translation) -> tuple[Task, ...]:
        params = with_native_spellings(self.module.params, translation, self.hosts.portable_keys())
        params = typed_params(params)
        if not self.scope.files:
            check_data_names(params)
            return ()
        task = data_task(params, settings, self.scope.request.cwd, self.experiment.workspace)
        return (task,) if task else ()

    def _plan(self, target: Target, settings: Settings, translation: Translation, data: tuple[Task, ...]) -> RunPlan:
        return make_plan(
            self.experiment,
            self.module,
            target=target,
            settings=settings,
            translation=translation,
            prepare=data,
            request=self.scope.request,
            distributions=discovery.distributions(self.plugins),
        )

    def _findings(
        self, sections: tuple[Finding, ...], translation: Translation | None, plan: RunPlan | None
    ) -> tuple[Finding, ...]:
        found = [*sections, *(unused_parameters(self.experiment, self.module, translation) if translation else ())]
        if plan:
            found += [*unused_version(self.module, plan.target), *check_layout(plan)]
            checked = [
                *self.hosts.preflight(plan, Where.SUBMIT, known_env(plan, self.scope.request)),
                *self.hosts.unsupported(plan.target.library_version, here=self.scope.request.shell_reaches_ranks),
            ]
            found += hooks.as_errors(checked) if plan.preflight == "strict" else checked
        if plan and self.scope.files:
            found += self.hosts.preflight_files(plan)
        return tuple(dict.fromkeys(map(self._strictly, found)))  # a check may answer alike at both places

    def _strictly(self, finding: Finding) -> Finding:
        return evolve(finding, severity="error") if self.scope.strict and has_no_effect(finding) else finding
