"""The values that Megatron will have, and the words for what is wrong with them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from primus_backend_megatron.host.schema import schema_for
from primus_core.experiment import Module, Value
from primus_core.outcome import Finding, Severity
from primus_core.parameters import Parameter
from primus_core.plan import ModelSizes, RunPlan, Translation


@frozen
class Values(Mapping[str, Value]):
    """What the translation sets, on Megatron's defaults, of which the checks read few."""

    set: Mapping[str, Value]
    parameters: Mapping[str, Parameter]

    def __getitem__(self, name: str) -> Value:
        return self.set[name] if name in self.set else self.parameters[name].default

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)


@frozen(kw_only=True)
class Case:
    """A plan as the checks see it."""

    values: Mapping[str, Value]
    """Every parameter of Megatron: its default, or what the translation sets."""
    shape: ModelSizes
    module: Module
    paths: Mapping[str, str]
    """The spelling in the experiment of the parameters that are set there."""
    chosen: Mapping[str, str]
    """Why the back end chose a value itself."""
    world_size: int

    @classmethod
    def of(cls, plan: RunPlan, translation: Translation, module: Module) -> Case:
        """The case of a plan that has a translation with a model."""
        if translation.model is None:
            raise ValueError("a translation for Megatron has a model")
        paths = {row.native: row.path for row in translation.mapping}
        paths |= {row.native: row.path for row in translation.adjusted}
        return cls(
            values=Values(translation.native, schema_for(plan.target.library_version).parameters),
            shape=translation.model,
            module=module,
            paths=paths,
            chosen={row.native: row.why for row in translation.adjusted if row.asked is None},
            world_size=plan.target.world_size,
        )

    def size(self, name: str, default: int = 1) -> int:
        """A whole number, or the default where the parameter is null."""
        value = self.values[name]
        return value if isinstance(value, int) else default

    def number(self, name: str, default: float = 0.0) -> float:
        """A number, or the default where the parameter is null."""
        value = self.values[name]
        return float(value) if isinstance(value, (int, float)) else default

    def on(self, name: str) -> bool:
        """Whether a parameter is true, or set to anything but null and zero."""
        return bool(self.values[name])

    @property
    def on_gpus(self) -> bool:
        """Whether ranks have GPUs; on CPUs they talk by gloo."""
        return self.values["distributed_backend"] != "gloo"

    @property
    def samples_at_once(self) -> int:
        """A micro batch on every data parallel replica."""
        names = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
        return self.size("micro_batch_size") * max(1, self.world_size // math.prod(map(self.size, names)))

    def error(self, check: str, summary: str, keys: Iterable[str], remedy: str) -> Finding:
        """A finding that ends the command, with the value and origin of each parameter concerned."""
        return self.finding("error", check, summary, keys, remedy)

    def finding(self, severity: Severity, check: str, summary: str, keys: Iterable[str], remedy: str) -> Finding:
        names = tuple(keys)
        return Finding(
            check=f"megatron.{check}",
            severity=severity,
            summary=summary,
            evidence="\n".join(self._evidence(key) for key in names),
            remedy=remedy,
            where=self.place(names),
        )

    def place(self, keys: Iterable[str]) -> str:
        """Where the strongest layer set one of the parameters: a user's file comes before a preset; empty for none."""
        params = self.module.params
        origins = [params[path].origin for path in (self.paths.get(key, key) for key in keys) if path in params]
        return str(max(origins, key=lambda origin: origin.strength)) if origins else ""

    def _evidence(self, key: str) -> str:
        path = self.paths.get(key, key)
        default = self.chosen.get(key, "Megatron's default")
        origin = self.module.origin(path) if path in self.module.params else default
        return f"{path}: {json.dumps(self.values[key])} ({origin})"
