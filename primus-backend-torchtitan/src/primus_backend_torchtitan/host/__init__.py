"""The host side of the TorchTitan back end: translation and legality. Imports neither torch nor TorchTitan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from primus_backend_torchtitan.host.foreign import check_buildable, check_names, foreign_keys
from primus_backend_torchtitan.host.legality import check_plan
from primus_backend_torchtitan.host.packages import check_packages
from primus_backend_torchtitan.host.portable import portable_keys
from primus_backend_torchtitan.host.schema import FILES, LIBRARY, schema_for
from primus_backend_torchtitan.host.translate import translate
from primus_core.contract import host
from primus_core.experiment import Experiment, Module
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan, Target, Translation
from primus_core.planning.retention import check_retention

if TYPE_CHECKING:
    from primus_core.shape import ModelShape  # dear, and few commands ask for it

CONTRACT = 1
FRAMEWORK = "torchtitan"
LIBRARY_VERSIONS = FILES.versions()

__all__ = [
    "FRAMEWORK",
    "LIBRARY",
    "LIBRARY_VERSIONS",
    "foreign_keys",
    "model_shape",
    "portable_keys",
    "preflight_check",
    "schema_for",
    "translate_config",
]


@host
def translate_config(experiment: Experiment, module: Module, target: Target) -> Translation | None:
    """Translate a module whose framework is ``torchtitan``."""
    return translate(experiment, module, target) if module.framework == FRAMEWORK else None


@host
def model_shape(plan: RunPlan) -> ModelShape | None:
    """The model on the ranks of the plan's layout, for projection."""
    if plan.framework != FRAMEWORK:
        return None
    from primus_backend_torchtitan.host.shape import shape_of_plan  # here: few commands ask for it

    return shape_of_plan(plan)


@host
def preflight_check(plan: RunPlan, where: Where) -> Sequence[Finding]:
    """Whether the library is known and can build and divide the model, before anything is started."""
    if plan.framework != FRAMEWORK:
        return ()
    if where is Where.FILES:
        from primus_backend_torchtitan.host.starting import check_files  # here: most commands look at no file

        return check_files(plan)
    if where is not Where.SUBMIT:
        return ()
    return (
        *FILES.check(plan.target.library_version),
        *check_packages(plan, here=False),
        *check_names(plan),
        *check_buildable(plan),
        *check_plan(plan),
        *check_retention(plan, "checkpoint.keep_latest_k"),
    )
