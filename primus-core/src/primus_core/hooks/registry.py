"""A pluggy manager that holds a plugin to the contract when it is added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TypeVar

from pluggy import HookImpl, HookimplOpts, HookspecOpts, PluginManager, PluginValidationError

from primus_core.contract.markers import PROJECT
from primus_core.discovery import Group, PluginInfo, load
from primus_core.errors import DependencyError, PrimusError
from primus_core.hooks.faults import failed, misspelt, no_hook, wrapper, wrong_arguments, wrong_result
from primus_core.hooks.findings import as_finding, as_findings
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan

T = TypeVar("T")


class _Manager(PluginManager):
    """Looks for hooks among a module's marked functions only: pluggy would inspect everything that it imports, too."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> HookimplOpts | None:
        if isinstance(plugin, ModuleType) and not hasattr(vars(plugin).get(name), f"{PROJECT}_impl"):
            return None
        return super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, module_or_class: ModuleType | type, name: str) -> HookspecOpts | None:
        return None if name.startswith("_") else super().parse_hookspec_opts(module_or_class, name)


class Registry:
    """A pluggy manager that knows the distribution behind each plugin."""

    def __init__(self, specification: type) -> None:
        self._manager = _Manager(PROJECT)
        self._manager.add_hookspecs(specification)
        self._infos: dict[str, PluginInfo] = {}

    def add(self, info: PluginInfo) -> None:
        """Load a plugin and check every hook that it implements.

        Raises:
            DependencyError: it fails to import, has no hook, or one that is misspelt, has unknown
                arguments or is a wrapper.
        """
        plugin = load(info)
        if self._manager.is_registered(plugin):
            return  # one module may serve two groups, such as a launcher with checks of its own
        name = f"{info.group}:{info.name}"
        try:
            self._manager.register(plugin, name=name)
            self._check(info, plugin)
        except (PluginValidationError, DependencyError) as error:
            if self._manager.is_registered(plugin):  # pluggy's versions differ in what a refused plugin leaves behind
                self._manager.unregister(plugin)
            if isinstance(error, DependencyError):
                raise
            raise wrong_arguments(info, error) from None
        self._infos[name] = info

    def _check(self, info: PluginInfo, plugin: object) -> None:
        known = [name for name, caller in vars(self._manager.hook).items() if caller.has_spec()]
        callers = self._manager.get_hookcallers(plugin) or []
        if not callers:
            raise no_hook(info, known)
        for caller in callers:
            own = [hook for hook in caller.get_hookimpls() if hook.plugin is plugin]
            if not caller.has_spec() and not all(hook.optionalhook for hook in own):
                raise misspelt(info, caller.name, known)
            if any(hook.wrapper or hook.hookwrapper for hook in own):
                raise wrapper(info, caller.name)

    def implementations(self, hook: str) -> list[HookImpl]:
        found: list[HookImpl] = getattr(self._manager.hook, hook).get_hookimpls()
        return sorted(found, key=lambda implementation: implementation.plugin_name)

    def call(self, implementation: HookImpl, hook: str, **arguments: object) -> object:
        """The result of one plugin's hook; None where it returns nothing. Its exceptions pass."""
        others = [plugin for plugin in self._manager.get_plugins() if plugin is not implementation.plugin]
        result: object = self._manager.subset_hook_caller(hook, others)(**arguments)
        return result

    def only(self, hook: str, kind: type[T], **arguments: object) -> T:
        """The result of a hook that exactly one plugin must implement.

        Raises:
            DependencyError: none or several implement it, or the one fails or returns something else.
            PrimusError: what the plugin itself tells the user.
        """
        implementations = self.implementations(hook)
        if len(implementations) != 1:
            raise self._not_one(hook, implementations)
        info = self.info(implementations[0])
        try:
            result = self.call(implementations[0], hook, **arguments)
        except PrimusError:
            raise
        except Exception as error:
            raise failed(info, hook, error) from error
        if not isinstance(result, kind):
            raise wrong_result(info, hook, f"a {kind.__name__}", result)
        return result

    def findings(self, plan: RunPlan, where: Where, env: Mapping[str, str]) -> Iterator[Finding]:
        """What each plugin's preflight check finds; a check that itself fails is an error found."""
        for implementation in self.implementations("preflight_check"):
            info = self.info(implementation)
            try:
                yield from self._checked(implementation, plan, where, env)
            except PrimusError as error:
                yield as_finding(info, error)
            except Exception as error:  # noqa: BLE001 - told to the user as a finding, which stops the run
                yield as_finding(info, failed(info, "preflight_check", error), cause="runtime")

    def strict_findings(self, plan: RunPlan, where: Where, env: Mapping[str, str]) -> Iterator[Finding]:
        """As `findings`; a check that itself fails raises.

        Raises:
            DependencyError: it fails, or returns something else.
            PrimusError: what the plugin itself tells the user.
        """
        for implementation in self.implementations("preflight_check"):
            try:
                yield from self._checked(implementation, plan, where, env)
            except PrimusError:
                raise
            except Exception as error:
                raise failed(self.info(implementation), "preflight_check", error) from error

    def _checked(self, implementation: HookImpl, plan: RunPlan, where: Where, env: Mapping[str, str]) -> list[Finding]:
        results = self.call(implementation, "preflight_check", plan=plan, where=where, env=env)
        return as_findings(self.info(implementation), results)

    def declared(self, group: Group, name: str) -> object:
        """A constant of the loaded plugin of a group; None where there is no plugin or no such constant."""
        loaded = [key for key, info in self._infos.items() if info.group == group]
        return getattr(self._manager.get_plugin(loaded[0]), name, None) if loaded else None

    def info_of(self, group: Group) -> PluginInfo | None:
        """The loaded plugin of a group; None where there is none."""
        return next((info for info in self._infos.values() if info.group == group), None)

    def info(self, implementation: HookImpl) -> PluginInfo:
        return self._infos[implementation.plugin_name]

    def _not_one(self, hook: str, implementations: Sequence[HookImpl]) -> DependencyError:
        loaded = ", ".join(sorted(map(str, self._infos.values()))) or "no plugin"
        if not implementations:
            return DependencyError(
                f"no selected plugin implements {hook}",
                why=f"Loaded: {loaded}.",
                remedy="Install a version of the plugin that has it, or name another plugin.",
            )
        names = sorted({self.info(implementation).distribution for implementation in implementations})
        return DependencyError(
            f"{' and '.join(names)} both implement {hook}",
            why=f"It may have one implementation. Loaded: {loaded}.",
            remedy=f"Remove one: {' or '.join(f'`pip uninstall {name}`' for name in names)}.",
        )
