"""The plugins of one run, with a typed method for each hook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from attrs import field

from primus_core.contract.specs import HostSpec, RankContext, RankSpec
from primus_core.discovery import Plugins, installed_version, select
from primus_core.errors import DependencyError, raise_all
from primus_core.experiment import Experiment, Module, Value
from primus_core.hooks.findings import as_finding, in_order
from primus_core.hooks.libraries import unsupported
from primus_core.hooks.registry import Registry
from primus_core.outcome import Finding, PatchReport, Where
from primus_core.parameters import Schema
from primus_core.parameters.foreign import ForeignKeys
from primus_core.plan import Job, RunPlan, Submission, Target, Translation
from primus_core.records import frozen

if TYPE_CHECKING:
    from primus_core.shape import ModelShape  # its many classes are dear, and a dry run asks for no shape

_UNKNOWN: Mapping[str, str] = MappingProxyType({})
"""An environment of which nothing is known."""


@frozen
class HostPlugins:
    """The plugins of one run in the process of ``primus run``."""

    _registry: Registry
    unusable: tuple[Finding, ...] = field(default=())
    """Preflight plugins that could not be loaded."""

    def translate_config(self, experiment: Experiment, module: Module, target: Target) -> Translation:
        """One module in the words of its library; see `HostSpec.translate_config` and `check_translation`."""
        return self._registry.only("translate_config", Translation, experiment=experiment, module=module, target=target)

    def library_version(self, asked: Value = None) -> str:
        """Version of the back end's library to translate for: the installed one, else ``asked``, else the newest known.

        The back end's module says what its library is: ``LIBRARY``, the distribution's name, and
        ``LIBRARY_VERSIONS``, the versions that it has a schema for, oldest first.

        Raises:
            DependencyError: nothing is installed, asked or known.
        """
        library = self._registry.declared("primus.backends", "LIBRARY")
        versions = self._registry.declared("primus.backends", "LIBRARY_VERSIONS")
        known = [str(version) for version in versions] if isinstance(versions, (list, tuple)) else []
        found = installed_version(str(library)) if library else None
        version = found or (str(asked) if asked else None) or (known[-1] if known else None)
        if version is None:
            raise DependencyError(
                f"the version of {library or 'the library'} is not known",
                why="It is not installed here and the back end ships no schema.",
                remedy="Install it, or set `backend_version:` to the version that the ranks will have.",
            )
        return version

    def schema(self, version: str) -> Schema | None:
        """The parameters that the back end takes for a version of its library.

        Its module says so with a function ``schema_for(version)``; None where it has none.
        """
        find = self._registry.declared("primus.backends", "schema_for")
        found = find(version) if callable(find) else None
        return found if isinstance(found, Schema) else None

    def foreign_keys(self) -> ForeignKeys:
        """The parameters of other products that the back end knows: its module's ``foreign_keys()``, if it has one."""
        find = self._registry.declared("primus.backends", "foreign_keys")
        found = find() if callable(find) else {}
        return found if isinstance(found, Mapping) else {}

    def portable_keys(self) -> Mapping[str, str]:
        """The library's own name of each portable parameter; empty for one that does not reach the library.

        Its module's ``portable_keys()``, if it has one.
        """
        find = self._registry.declared("primus.backends", "portable_keys")
        found = find() if callable(find) else {}
        return found if isinstance(found, Mapping) else {}

    def model_shape(self, plan: RunPlan) -> ModelShape | None:
        """The plan's model as projection reads it; None where the back end does not tell."""
        if not self._registry.implementations("model_shape"):
            return None
        from primus_core.shape import ModelShape  # here: see above

        return self._registry.only("model_shape", ModelShape, plan=plan)

    def launch(self, job: Job) -> Submission:
        """What the launcher asks core to start. Starts nothing."""
        return self._registry.only("launch", Submission, job=job)

    def preflight(
        self, plan: RunPlan, where: Where = Where.SUBMIT, env: Mapping[str, str] = _UNKNOWN
    ) -> tuple[Finding, ...]:
        """What all checks find, errors first; preflight plugins that cannot be used are among the errors.

        Args:
            env: of the ranks, as far as it is known.
        """
        return in_order([*self.unusable, *self._registry.findings(plan, where, env)])

    def unsupported(self, version: str = "", *, here: bool) -> Iterator[Finding]:
        """Libraries of the back end that have versions which it does not support.

        Args:
            version: of its own library; empty: the installed one.
            here: the ranks have the libraries that are installed here.
        """
        info = self._registry.info_of("primus.backends")
        library = str(self._registry.declared("primus.backends", "LIBRARY") or "")
        known = {library: version} if version else {}
        yield from unsupported(info.distribution, known, here=here) if info else ()

    def check_strictly(self, plan: RunPlan, where: Where, env: Mapping[str, str] = _UNKNOWN) -> tuple[Finding, ...]:
        """As `preflight`, for who tells a check that fails from one that finds something.

        Raises:
            DependencyError: a check fails, or its plugin cannot be used.
            PrimusError: what a plugin itself tells the user.
        """
        raise_all([finding.as_error() for finding in self.unusable])
        return in_order(self._registry.strict_findings(plan, where, env))

    def preflight_files(self, plan: RunPlan) -> tuple[Finding, ...]:
        """What the checks find that open data and checkpoint files, errors first."""
        return in_order(self._registry.findings(plan, Where.FILES, _UNKNOWN))


@frozen
class RankPlugins:
    """The rank side of one back end."""

    _registry: Registry

    def patch_backend(self, plan: RunPlan, rank: RankContext) -> PatchReport:
        """Apply the plan's patches. Without a translation, or without patches and rank side, there is nothing to do.

        Raises:
            DependencyError: patches are planned and nothing here applies them, or the plugin fails.
        """
        if plan.translation is None:
            return PatchReport()
        if not plan.translation.patches and not self._registry.implementations("patch_backend"):
            return PatchReport()
        return self._registry.only("patch_backend", PatchReport, plan=plan, rank=rank)

    def preflight(
        self, plan: RunPlan, where: Where = Where.NODE, env: Mapping[str, str] = _UNKNOWN
    ) -> tuple[Finding, ...]:
        """What the back end's own check finds on this node, errors first."""
        return in_order(self._registry.findings(plan, where, env))


def load_host(
    plugins: Plugins, *, backend: str | None, launcher: str | None, preflight: bool, backend_where: str = ""
) -> HostPlugins:
    """Load the back end and launcher that a run names and, with ``preflight``, all installed preflight plugins.

    The back end's own preflight check is part of the back end: it runs in any case.

    Args:
        backend: framework of the experiment; None for a run without one.
        launcher: None where nothing will be started.
        backend_where: where the user named the framework, for the message.

    Raises:
        ConfigError: a named plugin is not installed.
        DependencyError: a named plugin cannot be used. A preflight plugin that cannot be used becomes a finding.
    """
    registry = Registry(HostSpec)
    if backend is not None:
        registry.add(select(plugins, "primus.backends", backend, where=backend_where))
    if launcher is not None:
        registry.add(select(plugins, "primus.launchers", launcher))
    unusable = []
    for info in plugins.of("primus.preflight") if preflight else ():
        try:
            registry.add(info)
        except DependencyError as error:
            unusable.append(as_finding(info, error))
    return HostPlugins(registry, tuple(unusable))


def load_rank(plugins: Plugins, framework: str | None) -> RankPlugins:
    """Load the rank side of a back end, if it has one.

    Raises:
        DependencyError: it cannot be used, or two distributions claim it.
    """
    registry = Registry(RankSpec)
    if framework is not None and any(info.name == framework for info in plugins.of("primus.ranks")):
        registry.add(select(plugins, "primus.ranks", framework))
    return RankPlugins(registry)
