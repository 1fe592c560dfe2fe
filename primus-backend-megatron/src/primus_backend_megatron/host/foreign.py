"""Parameters of other products, from the table in ``foreign.json``, and what they ask for that cannot be built."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files

from primus_backend_megatron.host.schema import schema_for
from primus_core.discovery import installed_version
from primus_core.experiment import Leaf, Module, Value
from primus_core.outcome import Finding
from primus_core.parameters import ForeignKey, ForeignKeys, Schema, load_foreign
from primus_core.parameters.foreign import asks, foreign_key, is_off
from primus_core.plan import RunPlan

_LINEAR_ATTENTION = "flash-linear-attention"


@cache
def foreign_keys() -> ForeignKeys:
    """The reviewed table, by name."""
    return load_foreign(files("primus_backend_megatron").joinpath("foreign.json").read_text(encoding="utf-8"))


def foreign_row(path: str, schema: Schema) -> ForeignKey | None:
    """The row of a parameter that Megatron does not have; None for its own, also for those that it cannot build."""
    return None if path in schema.parameters else foreign_key(path, foreign_keys())


def switches(params: Mapping[str, Leaf], schema: Schema) -> Callable[[str], bool]:
    """Whether a parameter has a value that asks for something: the one that was set, else Megatron's default."""

    def is_on(name: str) -> bool:
        if name == "save" and name not in params:
            return is_on("save_interval")  # it saves to the experiment's own folder
        native = schema.parameters.get(name)
        return not is_off(params[name].value if name in params else native.default if native else None)

    return is_on


def check_buildable(plan: RunPlan) -> Iterator[Finding]:
    """An error for each parameter that asks for a model or a training that the installation cannot build."""
    if plan.experiment is None or plan.module is None:
        return
    module, schema = plan.experiment.modules[plan.module], schema_for(plan.target.library_version)
    is_on = switches(module.params, schema)
    for path, leaf in module.params.items():
        key = foreign_key(path, foreign_keys())
        if key and asks(key, leaf, is_on):
            yield _unbuildable(module, path, leaf, key.why, key.remedy)
    if plan.translation:
        yield from _linear_attention(plan.translation.native, module)


def _linear_attention(native: Mapping[str, Value], module: Module) -> Iterator[Finding]:
    """Gated delta networks are computed by a package of their own; where Megatron is not installed nobody knows."""
    name = "experimental_attention_variant"
    if native.get(name) != "gated_delta_net" or installed_version("megatron-core") is None:
        return
    if installed_version(_LINEAR_ATTENTION) is None:
        why = f"gated delta networks, which Megatron computes with {_LINEAR_ATTENTION}"
        yield _unbuildable(module, name, module.params[name], why, f"`pip install {_LINEAR_ATTENTION}`")


def _unbuildable(module: Module, path: str, leaf: Leaf, why: str, remedy: str) -> Finding:
    return Finding(
        check="megatron.model",
        severity="error",
        summary=f"`{path}` asks for {why}",
        evidence=f"{path}: {json.dumps(leaf.value, ensure_ascii=False)} ({leaf.origin})",
        remedy=remedy or f"remove `{path}`, or choose another model than {module.model}",
        cause="dependency",
        where=str(leaf.origin),
    )
