"""What a reader of the figures must know of this plan."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import PIPELINE, Case


def notes_of(case: Case) -> tuple[str, ...]:
    """A sentence for each choice that these figures leave out."""
    return tuple(_notes(case))


def _notes(case: Case) -> Iterator[str]:
    if case.values["compile.enable"] is True:
        yield "The model is compiled, which saves activations that are counted here."
    if case.values["activation_checkpoint.kind"] == "memory_budget":
        yield "What a memory budget lets the compiler compute again is counted as kept: too high."
    if case.values["compile.enable_async_tensor_parallel"] is True or case.values["parallelism.enable_fsdp_symm_mem"]:
        yield "Buffers that ranks share for their collectives are not counted: too low."
    if case.values["debug.detect_anomaly"] is True:
        yield "Traces of the forward pass that are kept to find anomalies are not counted: too low."
    if case.values["model.converters"]:
        yield "Weights and activations are counted in the format of training, not in that of converters."
    if case.values["training.enable_cpu_offload"] is True:
        yield "Weights, gradients and the optimizer's state are kept in the host's memory, and counted here."
    if case.size(PIPELINE) > 1 and case.values["parallelism.pipeline_parallel_schedule_csv"]:
        yield "The schedule is read from a file, and counted as the one that is named beside it."
    if case.size(PIPELINE) > 1 and case.values["parallelism.pipeline_parallel_schedule"] == "ZBVZeroBubble":
        yield "Activations of this schedule are counted too high."
    if not case.model["untie_embeddings_and_output_weights"]:
        yield "The output's weight is counted as if it was gathered for itself."
    if case.shape.experts:
        yield "Every expert gets as many tokens as every other."
    if case.values["optimizer.param_groups"]:
        yield "Every parameter group is counted with the two moments of Adam."
