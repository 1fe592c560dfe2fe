"""From an experiment's module to TorchTitan's own parameters, with a row of explanation for each."""

from __future__ import annotations

from primus_backend_torchtitan.host.asked import read
from primus_backend_torchtitan.host.batches import adjust_batches
from primus_backend_torchtitan.host.converters import adjust_converters
from primus_backend_torchtitan.host.data import adjust_data, unreadable
from primus_backend_torchtitan.host.draft import Draft
from primus_backend_torchtitan.host.environment import environment_of
from primus_backend_torchtitan.host.loss import adjust_loss
from primus_backend_torchtitan.host.model import adjust_model, layout_of, shape_of
from primus_backend_torchtitan.host.platform import adjust_platform, impossible
from primus_backend_torchtitan.host.required import missing, out_of_limits
from primus_backend_torchtitan.host.saving import adjust_saving, unsavable
from primus_backend_torchtitan.host.schedule import adjust_evaluation, adjust_schedule, unspeakable
from primus_backend_torchtitan.host.schema import schema_for
from primus_backend_torchtitan.host.semantics import adjust_semantics, meaningless
from primus_backend_torchtitan.patch_plan import plan_patches
from primus_core.errors import raise_all
from primus_core.experiment import Experiment, Module
from primus_core.plan import Target, Translation
from primus_core.planning.settings import core_schema, core_settings

ENTRY = "primus_backend_torchtitan.rank.train:run"

_STEPS = (
    adjust_model,
    adjust_converters,
    adjust_data,
    adjust_batches,
    adjust_loss,
    adjust_schedule,
    adjust_semantics,
    adjust_evaluation,
    adjust_saving,
    adjust_platform,
)


def translate(experiment: Experiment, module: Module, target: Target) -> Translation:
    """The module in TorchTitan's own parameters.

    Raises:
        ConfigError: a parameter is unknown, of the wrong type, missing, or impossible here; ``ErrorGroup`` for several.
    """
    draft = _draft(experiment, module, target)
    raise_all([*impossible(draft), *meaningless(draft), *unspeakable(draft), *unreadable(draft)])
    for adjust in _STEPS:
        adjust(draft)
    return Translation(
        native=draft.native,
        entry=ENTRY,
        layout=layout_of(draft),
        mapping=tuple(draft.mapping()),
        adjusted=tuple(draft.adjusted.values()),
        unused=(*draft.asked.unused, *draft.unused.values()),
        patches=plan_patches(target, draft),
        environment=environment_of(draft),
        model=shape_of(draft),
    )


def _draft(experiment: Experiment, module: Module, target: Target) -> Draft:
    """Everything that was asked for, once it is known to be complete and well-typed."""
    asked = read(module.params, target.library_version, core_schema().parameters)
    raise_all([*asked.errors, *out_of_limits(asked), *missing(asked, experiment, module), *unsavable(asked)])
    settings = core_settings(module)
    return Draft(
        asked=asked,
        schema=schema_for(target.library_version),
        target=target,
        folder=experiment.folder,
        auto_continue=settings["auto_continue_train"] is True,
        aligned=settings["semantics"] == "aligned",
    )
