"""A plan as the checks of the host see it, and the words for what is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from attrs import frozen

from primus_backend_torchtitan.architecture import DEFAULTS
from primus_backend_torchtitan.host.portable import RULES
from primus_backend_torchtitan.host.schema import schema_for
from primus_core.experiment import Module, Value
from primus_core.outcome import Cause, Finding
from primus_core.plan import Adjusted, Mapped, ModelSizes, RunPlan, Translation

TENSOR = "parallelism.tensor_parallel_degree"
PIPELINE = "parallelism.pipeline_parallel_degree"
CONTEXT = "parallelism.context_parallel_degree"
EXPERT = "parallelism.expert_parallel_degree"

_PORTABLE: Mapping[str, str] = {rule.native: name for name, rule in RULES.items() if rule.native}


@frozen(kw_only=True)
class Case:
    """A plan, its values and where they were set."""

    values: Mapping[str, Value]
    """Every parameter by its native path: TorchTitan's default, or what the translation sets."""
    shape: ModelSizes
    module: Module
    paths: Mapping[str, str]
    """The spelling in the experiment of the parameters that are set there."""
    chosen: Mapping[str, str]
    """Why the back end chose a value itself."""
    world_size: int
    accelerator: str = "cpu"
    """Of the ranks: what is one kernel on a GPU is several operations on a CPU."""

    @classmethod
    def of(cls, plan: RunPlan, translation: Translation, module: Module) -> Case:
        """The case of a plan that has a translation with a model."""
        if translation.model is None:
            raise ValueError("a translation for TorchTitan has a model")
        rows: tuple[Mapped | Adjusted, ...] = (*translation.mapping, *translation.adjusted)
        return cls(
            values={
                **schema_for(plan.target.library_version).defaults,
                **{f"model.{name}": value for name, value in DEFAULTS.items()},
                **translation.native,
            },
            shape=translation.model,
            module=module,
            paths={row.native: row.path for row in rows if row.path in module.params},
            chosen={row.native: row.why for row in translation.adjusted if row.path not in module.params},
            world_size=plan.target.world_size,
            accelerator=plan.target.accelerator,
        )

    @property
    def model(self) -> Mapping[str, Value]:
        """The architecture by portable names."""
        return {native[6:]: value for native, value in self.values.items() if native.startswith("model.")}

    @property
    def replicas(self) -> int:
        """Groups of ranks that each hold one copy of the model and read samples of their own."""
        return self.world_size // math.prod(map(self.size, (TENSOR, PIPELINE, CONTEXT)))

    @property
    def shards(self) -> int:
        """Ranks that divide the weights of one copy of the model, beside tensor parallel ones."""
        return self.replicas * self.size(CONTEXT) // self.size("parallelism.data_parallel_replicate_degree")

    def size(self, native: str, default: int = 1) -> int:
        """A whole number, or the default where the parameter is null."""
        value = self.values[native]
        return value if isinstance(value, int) else default

    def error(
        self, check: str, summary: str, keys: Iterable[str], remedy: str, cause: Cause = "configuration"
    ) -> Finding:
        """A finding that ends the command, with the value and origin of each parameter concerned."""
        natives = tuple(keys)
        return Finding(
            check=f"torchtitan.{check}",
            severity="error",
            summary=summary,
            evidence="\n".join(map(self._evidence, natives)),
            remedy=remedy,
            cause=cause,
            where=self._where(natives),
        )

    def _where(self, natives: Iterable[str]) -> str:
        """The place of the first parameter that somebody set; empty where nobody set any."""
        origins = (self.module.origin(self.paths[native]) for native in natives if native in self.paths)
        return next(origins, "")

    def name(self, native: str) -> str:
        """What the user calls a parameter, or would in a file for every back end."""
        return self.paths.get(native) or _PORTABLE.get(native, native)

    def _evidence(self, native: str) -> str:
        default = self.chosen.get(native, "default")
        origin = self.module.origin(self.paths[native]) if native in self.paths else default
        return f"{self.name(native)}: {json.dumps(self.values.get(native))} ({origin})"
