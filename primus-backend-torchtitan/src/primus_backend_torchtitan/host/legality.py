"""Whether TorchTitan can build and divide the model as the experiment asks. World size and batch are core's checks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping

from attrs import frozen

from primus_backend_torchtitan.architecture import DEFAULTS, family_of
from primus_backend_torchtitan.host.schema import schema_for
from primus_core.experiment import Module, Value
from primus_core.outcome import Cause, Finding
from primus_core.plan import ModelShape, RunPlan


@frozen(kw_only=True)
class Case:
    """A plan as the checks see it."""

    values: Mapping[str, Value]
    """Every parameter by its native path: TorchTitan's default, or what the translation sets."""
    shape: ModelShape
    module: Module
    paths: Mapping[str, str]
    """The spelling in the experiment of the parameters that are set there."""

    def size(self, native: str) -> int:
        value = self.values[native]
        return value if isinstance(value, int) else 1

    def error(
        self, check: str, summary: str, keys: tuple[str, ...], remedy: str, cause: Cause = "configuration"
    ) -> Finding:
        """A finding that ends the command, with the value and origin of each parameter concerned."""
        return Finding(
            check=f"torchtitan.{check}",
            severity="error",
            summary=summary,
            evidence="\n".join(map(self._evidence, keys)),
            remedy=remedy,
            cause=cause,
        )

    def name(self, native: str) -> str:
        """What the user calls a parameter."""
        return self.paths.get(native, native.removeprefix("model."))

    def _evidence(self, native: str) -> str:
        name = self.name(native)
        origin = self.module.origin(name) if name in self.module.params else "default"
        return f"{name}: {json.dumps(self.values.get(native))} ({origin})"


def check_plan(plan: RunPlan) -> tuple[Finding, ...]:
    """All findings about a plan for TorchTitan; none for a plan without a translation."""
    translation = plan.translation
    if translation is None or plan.experiment is None or plan.module is None or translation.model is None:
        return ()
    defaults = {f"model.{name}": value for name, value in DEFAULTS.items()}
    case = Case(
        values={**schema_for(plan.target.library_version).defaults, **defaults, **translation.native},
        shape=translation.model,
        module=plan.experiment.modules[plan.module],
        paths={
            **{row.native: row.path for row in translation.mapping},
            **{row.native: row.path for row in translation.adjusted},
        },
    )
    return tuple(finding for check in _CHECKS for finding in check(case))


def _check_family(case: Case) -> Iterator[Finding]:
    """The builder of the model's family can make it."""
    model = {native[6:]: value for native, value in case.values.items() if native.startswith("model.")}
    for name, (plain, words) in family_of(model).accepts.items():
        native = f"model.{name}"
        if case.values[native] not in plain:
            yield case.error(
                "model",
                f"this back end cannot build a model with {name}: {json.dumps(case.values[native])} yet",
                (native,),
                f"train it with `framework: megatron`, or choose a model with {words}",
                cause="dependency",
            )


def _check_heads(case: Case) -> Iterator[Finding]:
    heads, groups = case.shape.heads, case.shape.query_groups
    tensor = case.size("parallelism.tensor_parallel_degree")
    if case.shape.hidden % heads and case.values["model.kv_channels"] is None:
        yield case.error(
            "heads",
            f"{heads} heads cannot share {case.shape.hidden} features",
            ("model.hidden_size", "model.num_attention_heads"),
            "choose a hidden_size that num_attention_heads divides, or set kv_channels",
        )
    if heads % groups:
        yield case.error(
            "heads",
            f"{heads} query heads cannot be divided among {groups} groups",
            ("model.num_attention_heads", "model.num_query_groups"),
            "choose a num_query_groups that divides num_attention_heads",
        )
    if heads % tensor or groups % tensor:
        yield case.error(
            "tensor",
            f"{heads} query heads and {groups} key and value heads cannot be divided among {tensor} ranks",
            ("parallelism.tensor_parallel_degree", "model.num_attention_heads", "model.num_query_groups"),
            "choose a tensor parallel size that divides both",
        )


def _check_sequence(case: Case) -> Iterator[Finding]:
    length, longest = case.shape.sequence, case.size("model.max_position_embeddings")
    if length > longest:
        yield case.error(
            "sequence",
            f"sequences of {length} tokens are longer than the model is made for, {longest}",
            ("training.seq_len", "model.max_position_embeddings"),
            "shorten the sequences, or raise max_position_embeddings",
        )
    context = case.size("parallelism.context_parallel_degree")
    parts = case.size("parallelism.tensor_parallel_degree") if case.values[_SEQUENCE_PARALLEL] else 1
    parts *= 2 * context if context > 1 else 1
    if context > 1 and case.values["model.attention"] == "flex":
        parts = math.lcm(parts, context * _BLOCK)
    if length % parts:
        yield case.error(
            "sequence",
            f"{length} tokens of a sequence are no multiple of {parts}, as tensor and context parallelism need",
            ("training.seq_len", "parallelism.tensor_parallel_degree", "parallelism.context_parallel_degree"),
            f"choose a multiple: {length // parts * parts or parts} or {(length // parts + 1) * parts}",
        )


def _check_pipeline(case: Case) -> Iterator[Finding]:
    stages = case.size("parallelism.pipeline_parallel_degree")
    if stages > 1 and case.shape.tied_embeddings:
        yield case.error(
            "pipeline",
            "TorchTitan cannot divide a model into stages whose embedding and output share their weights",
            ("parallelism.pipeline_parallel_degree", "model.untie_embeddings_and_output_weights"),
            "set `untie_embeddings_and_output_weights: true`, or use no pipeline parallelism",
        )
    if case.shape.layers < stages:
        yield case.error(
            "pipeline",
            f"{case.shape.layers} layers are too few for {stages} stages",
            ("model.num_layers", "parallelism.pipeline_parallel_degree"),
            "use fewer stages",
        )


_BLOCK = 128
"""Tokens of a block of flex attention's mask, which context parallelism cannot divide."""
_SEQUENCE_PARALLEL = "parallelism.enable_sequence_parallel"
_CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _check_family,
    _check_heads,
    _check_sequence,
    _check_pipeline,
)
