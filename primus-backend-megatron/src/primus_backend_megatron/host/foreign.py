"""Parameters of other products, from the table in ``foreign.json``, and what they ask for that cannot be built."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import frozen

from primus_backend_megatron.host.schema import LIBRARY, schema_for
from primus_core.discovery import installed_version
from primus_core.experiment import Leaf, Module, Value
from primus_core.outcome import Finding
from primus_core.parameters import ForeignKey, ForeignTable, Schema, load_foreign, portable
from primus_core.parameters.foreign import asks, foreign_key, is_off
from primus_core.plan import RunPlan

_TABLE = Path(__file__).parent.parent / "foreign.json"
_LINEAR_ATTENTION = "flash-linear-attention"


@cache
def foreign_keys() -> ForeignTable:
    """The reviewed table, by name."""
    return load_foreign(_TABLE.read_text(encoding="utf-8"))


@cache
def portable_keys() -> Mapping[str, str]:
    """Megatron's name of each portable parameter: the same, but for those that are aliases here."""
    aliases = {name: foreign_keys()[name].native for name in foreign_keys().of_fate("alias")}
    return {name: aliases.get(name, name) for name in portable()}


@cache
def names_left_out() -> frozenset[str]:
    """The parameters that reach no library."""
    return frozenset(foreign_keys()).difference(_wishes())


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


def check_buildable(plan: RunPlan) -> tuple[Finding, ...]:
    """An error that names everything which asks for a model or a training that the installation cannot build."""
    if plan.experiment is None or plan.module is None or plan.translation is None:
        return ()
    module, schema = plan.experiment.modules[plan.module], schema_for(plan.target.library_version)
    requests = [*_requests(module.params, schema), *_linear_attention(plan.translation.native, module.params)]
    return (_unbuildable(requests, module),) if requests else ()


@frozen
class _Request:
    """A parameter that asks for what there is not."""

    path: str
    leaf: Leaf
    what: str
    remedy: str = ""
    lacks: str = ""
    """The package that would build it; empty where none would."""

    def __str__(self) -> str:
        return f"`{self.path}: {json.dumps(self.leaf.value, ensure_ascii=False)}` asks for {self.what}"


def _requests(params: Mapping[str, Leaf], schema: Schema) -> Iterator[_Request]:
    is_on = switches(params, schema)
    for name in sorted(_wishes().intersection(params)):
        key, leaf = foreign_keys()[name], params[name]
        if asks(key, leaf, is_on):
            yield _Request(name, leaf, key.why, key.remedy)


@cache
def _wishes() -> frozenset[str]:
    """The parameters that may ask for what there is not."""
    return frozenset(foreign_keys().of_fate("needs"))


def _linear_attention(native: Mapping[str, Value], params: Mapping[str, Leaf]) -> Iterator[_Request]:
    """Gated delta networks are computed by a package of their own; where Megatron is not installed nobody knows."""
    name = "experimental_attention_variant"
    if native.get(name) != "gated_delta_net" or installed_version(LIBRARY) is None:
        return
    if installed_version(_LINEAR_ATTENTION) is None:
        what = f"gated delta networks, which Megatron computes with {_LINEAR_ATTENTION}"
        remedy = f"`pip install {_LINEAR_ATTENTION}`"
        yield _Request(name, params[name], what, remedy, lacks=_LINEAR_ATTENTION)


def _unbuildable(requests: Sequence[_Request], module: Module) -> Finding:
    remedies = dict.fromkeys(
        request.remedy or f"remove the parameters, or choose another model than {module.model}" for request in requests
    )
    return Finding(
        check="megatron.model",
        severity="error",
        summary=f"{module.model} with these parameters cannot be built with what is installed",
        evidence="\n".join(f"{request} ({request.leaf.origin})" for request in requests),
        remedy="; ".join(remedies),
        cause="dependency" if all(request.lacks for request in requests) else "unsupported",
        where=str(requests[0].leaf.origin),
    )
