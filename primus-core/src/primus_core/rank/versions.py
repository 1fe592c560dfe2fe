"""What a rank runs, by version."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from primus_core import discovery
from primus_core.plan import RunPlan

_LIBRARIES = ("torch", "numpy")


def versions(plan: RunPlan) -> Mapping[str, str]:
    """By name: Python, the kernel, the plan's distributions and what they stand on, and the library that trains.

    What is not installed here is left out.
    """
    found = {name: discovery.installed_version(name) for name in (*plan.distributions, *_LIBRARIES)}
    library = {plan.framework: plan.target.library_version} if plan.framework else {}
    system = {"python": platform.python_version(), "linux": platform.release()}
    return {**system, **{name: version for name, version in found.items() if version}, **library}
