"""Is this rank what the plan was made for?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from primus_core import discovery, hooks
from primus_core.contract import CONTRACT
from primus_core.errors import DependencyError, PrimusError, raise_all
from primus_core.plan import PLAN_SCHEMA, RunPlan
from primus_core.planning.accelerators import find_accelerators

_SAME = "Install the same versions on every node as where the plan was made, or plan again here."


def compare(plan: RunPlan, plugins: discovery.Plugins, world_size: int) -> None:
    """Compare versions, contract, accelerator and world size with what is found here.

    Raises:
        DependencyError: naming each difference with both values.
    """
    raise_all(list(_differences(plan, plugins, world_size)))


def _differences(plan: RunPlan, plugins: discovery.Plugins, world_size: int) -> Iterator[PrimusError]:
    if plan.schema != PLAN_SCHEMA:
        yield _different("layout of the plan", plan.schema, PLAN_SCHEMA)
    if plan.contract != CONTRACT:
        yield _different("plugin contract", plan.contract, CONTRACT)
    used = discovery.used(plan, plugins)
    yield from _distributions({name: plan.distributions[name] for name in used if name in plan.distributions})
    if plan.translation is not None:
        yield from _target(plan, plugins, world_size)


def _distributions(planned: Mapping[str, str]) -> Iterator[PrimusError]:
    """A distribution that is absent here is not needed here: what is needed fails by its own name."""
    for name, version in planned.items():
        found = discovery.installed_version(name)
        if found not in (None, version):
            yield _different(name, version, found)


def _target(plan: RunPlan, plugins: discovery.Plugins, world_size: int) -> Iterator[PrimusError]:
    target = plan.target
    found = find_accelerators().kind
    if target.accelerator not in ("cpu", found):
        yield _different("accelerator", target.accelerator, found, "Run where such devices are, or set `accelerator:`.")
    if world_size != target.world_size:
        yield _different("number of ranks", target.world_size, world_size, "Start as many ranks as were planned.")
    library = _library(plan, plugins)
    if library != target.library_version:
        yield _different(f"library of {plan.framework}", target.library_version, library)


def _library(plan: RunPlan, plugins: discovery.Plugins) -> str:
    """The version that a plan made here would be for."""
    back_end = hooks.load_host(plugins, backend=plan.framework, launcher=None, preflight=False)
    return back_end.library_version(plan.settings.values.get("backend_version"))


def _different(what: str, planned: object, found: object, remedy: str = _SAME) -> DependencyError:
    return DependencyError(
        f"{what}: the plan was made for {planned}, this rank has {found}",
        why="The plan would mean something else here.",
        remedy=remedy,
    )
