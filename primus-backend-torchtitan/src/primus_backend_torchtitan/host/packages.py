"""Packages that TorchTitan needs for what an experiment chooses, and how new they must be."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen
from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.entries import NATIVE as CONVERTERS
from primus_core.discovery import installed_version
from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.plan import RunPlan

_DISPATCHER = "model.expert_dispatcher"


@frozen(kw_only=True)
class Need:
    """A package that a choice needs."""

    requirement: str
    """As pip writes it: ``torch>=2.13``."""
    what: str
    """What needs it."""
    native: str = ""
    """The parameter that chooses it; empty: every training needs it."""
    values: tuple[str, ...] = ()
    """The values, or kinds of entries, that need it."""
    remedy: str = ""


_NEEDS = (
    Need(requirement="torch>=2.13", what="TorchTitan 0.3"),
    Need(
        requirement="torchao",
        what="float8 and smaller formats",
        native=CONVERTERS,
        values=("float8_linear", "float8_grouped_experts", "mxfp8_linear", "mxfp8_grouped_experts", "nvfp4_linear"),
    ),
    Need(
        requirement="deep_ep>=2.0.0",
        what="the dispatcher of DeepEP",
        native=_DISPATCHER,
        values=("deepep",),
        remedy="install DeepEP from its sources, or choose `standard`",
    ),
    Need(
        requirement="deep_ep",
        what="the dispatcher of HybridEP",
        native=_DISPATCHER,
        values=("hybridep",),
        remedy="install DeepEP's branch hybrid-ep, or choose `standard`",
    ),
)


def check_packages(plan: RunPlan, *, here: bool) -> tuple[Finding, ...]:
    """One error for each package that is missing or too old.

    Args:
        here: whether the training runs on this host. Where it does not and torch is missing, nobody can tell.
    """
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    if not here and installed_version("torch") is None:
        return ()
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    return tuple(_lacking(case))


def _lacking(case: Case) -> Iterator[Finding]:
    for need in _NEEDS:
        requirement = Requirement(need.requirement)
        found = installed_version(requirement.name)
        if _asks(need, case.values) and not _suffices(requirement, found):
            have = f"{found} is too old" if found else "is missing"
            least = f", which needs {need.requirement}" if requirement.specifier else ""
            yield case.error(
                "packages",
                f"{requirement.name} {have} for {need.what}{least}",
                (need.native,) if need.native else (),
                need.remedy or f"`pip install {shlex.quote(need.requirement)}`",
                cause="dependency",
            )


def _suffices(requirement: Requirement, found: str | None) -> bool:
    """A version of its own numbering, such as that of a build from sources, is believed."""
    if found is None:
        return False
    try:
        return requirement.specifier.contains(found, prereleases=True)
    except InvalidVersion:
        return True


def _asks(need: Need, values: Mapping[str, Value]) -> bool:
    if not need.native:
        return True
    value = values.get(need.native)
    chosen: Sequence[Value] = value if isinstance(value, list) else [value]
    kinds = [one.get("kind") if isinstance(one, Mapping) else one for one in chosen]
    return any(kind in need.values for kind in kinds)
