"""From an experiment's module to Megatron's Namespace, with a row of explanation for every parameter."""

from __future__ import annotations

from primus_backend_megatron.host import asked as asking
from primus_backend_megatron.host.cpu import adjust_platform, impossible
from primus_backend_megatron.host.data import adjust_data, adjust_evaluation, unread
from primus_backend_megatron.host.draft import Draft
from primus_backend_megatron.host.environment import environment_of
from primus_backend_megatron.host.files import adjust_paths
from primus_backend_megatron.host.limits import out_of_limits
from primus_backend_megatron.host.model import adjust_experts, adjust_model, layout_of, shape_of
from primus_backend_megatron.host.recompute import adjust_recompute
from primus_backend_megatron.host.required import missing
from primus_backend_megatron.host.schedule import adjust_schedule
from primus_backend_megatron.host.schema import schema_for
from primus_backend_megatron.host.semantics import adjust_semantics
from primus_backend_megatron.host.split import wrong_split
from primus_backend_megatron.host.trackers import adjust_trackers
from primus_backend_megatron.patch_plan import plan_patches
from primus_core.errors import raise_all
from primus_core.experiment import Experiment, Module
from primus_core.plan import Target, Translation
from primus_core.planning.settings import core_schema, core_setting

_STEPS = (
    adjust_data,
    adjust_evaluation,
    adjust_paths,
    adjust_trackers,
    adjust_model,
    adjust_experts,
    adjust_recompute,
    adjust_schedule,
    adjust_semantics,
    adjust_platform,
)

ENTRY = "primus_backend_megatron.rank.train:run"


def translate(experiment: Experiment, module: Module, target: Target) -> Translation:
    """The module in Megatron's own parameters.

    Raises:
        ConfigError: a parameter is unknown, of the wrong type, missing, or impossible here; ``ErrorGroup`` for several.
    """
    draft = _draft(experiment, module, target)
    raise_all([*unread(draft), *impossible(draft)])
    for adjust in _STEPS:
        adjust(draft)
    draft.adjust_unset("log_interval", 1, "Megatron's own lines in the log, one for each row of metrics.jsonl")
    return Translation(
        native=draft.native,
        entry=ENTRY,
        layout=layout_of(draft),
        mapping=draft.mapping(),
        adjusted=tuple(draft.adjusted.values()),
        unused=(*draft.asked.unused, *draft.unused.values()),
        patches=plan_patches(target, draft),
        environment=environment_of(draft),
        model=shape_of(draft),
    )


def _draft(experiment: Experiment, module: Module, target: Target) -> Draft:
    """Everything that was asked for, once it is known to be complete and well-typed."""
    schema = schema_for(target.library_version)
    asked = asking.read(module.params, schema, core_schema().parameters)
    raise_all([*asked.errors, *out_of_limits(asked), *wrong_split(asked), *missing(asked, experiment, module)])
    return Draft(
        asked=asked,
        schema=schema,
        target=target,
        workspace=experiment.workspace,
        folder=experiment.folder,
        exp_name=experiment.exp_name,
        auto_continue=core_setting(module, "auto_continue_train") is True,
        aligned=core_setting(module, "semantics") == "aligned",
    )
