"""What a reader of the figures must know of this plan."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import PIPELINE, Case
from primus_backend_torchtitan.host.schedules import schedule_of
from primus_backend_torchtitan.host.shape.recomputed import FORCED, forced_names
from primus_backend_torchtitan.host.shards import COPIES

_RECOMPUTED = "activation_checkpoint"


def notes_of(case: Case) -> tuple[str, ...]:
    """A sentence for each choice that these figures leave out."""
    return (*_of_kernels(case), *_of_recomputation(case), *_of_numbers(case), *_of_pipeline(case), *_of_model(case))


def _of_kernels(case: Case) -> Iterator[str]:
    if case.values["compile.enable"] is True:
        yield "The model is compiled, which saves activations that are counted here: too high."
    if case.accelerator != "cpu" and case.values["training.disable_cuda_graphs"] is not True:
        yield (
            "Passes are recorded as a CUDA graph, whose memory and gradients live through the whole run; counted are "
            "those of a step without one: too low."
        )
    if case.values["compile.enable_async_tensor_parallel"] is True or case.values["parallelism.enable_fsdp_symm_mem"]:
        yield "Buffers that ranks share for their collectives are not counted: too low."
    if case.values["debug.deterministic"] is True or case.values["debug.batch_invariant"] is True:
        yield "Deterministic kernels are counted as the usual ones; whether they need more is not known."
    if case.values["debug.detect_anomaly"] is True:
        yield "Traces of the forward pass that are kept to find anomalies are not counted: too low."
    if case.values["override.imports"]:
        yield "What override.imports changes is not counted; in which direction is not known."


def _of_recomputation(case: Case) -> Iterator[str]:
    kind = case.values[f"{_RECOMPUTED}.kind"]
    if kind == "memory_budget":
        yield "What a memory budget lets the compiler compute again is counted as kept: too high."
    if kind == "selective" and any("layers." in name for name in forced_names(case)):
        yield (
            f"What single layers' names in {FORCED.partition('.')[2]} force to run again is counted as kept: too high."
        )
    schedule = schedule_of(case.values["parallelism.pipeline_parallel_schedule"])
    if kind == "full" and case.size(PIPELINE) > 1 and schedule and schedule.splits:
        yield (
            f"With {schedule.name} a recomputed layer runs forward again for the gradient of each of its weights, not "
            "once: hardware operations count it, and the step takes that much longer."
        )


def _of_numbers(case: Case) -> Iterator[str]:
    if case.values["model.converters"]:
        yield (
            "Weights and activations are counted in the format of training, not in that of converters: activations too "
            "high, and copies in fewer bits are not counted."
        )
    if case.values["training.enable_cpu_offload"] is True:
        yield "Weights, gradients and the optimizer's state are kept in the host's memory, and counted here: too high."
    if case.values["optimizer.param_groups"]:
        yield "Every parameter group is counted with the two moments of Adam: too high where one has fewer."


def _of_pipeline(case: Case) -> Iterator[str]:
    if case.size(PIPELINE) == 1:
        return
    if case.size(COPIES) > 1 and case.values["loss.kind"] == "chunked":
        yield (
            "With copies of the model, PyTorch refers to the sum of the output layer's gradient that a loss in pieces "
            "made last until it makes the next; it is not counted on the last stage: too low."
        )
    if case.values["parallelism.pipeline_parallel_schedule_csv"]:
        yield (
            "The schedule is read from a file, and counted as the one that is named beside it; whether it needs more "
            "is not known."
        )


def _of_model(case: Case) -> Iterator[str]:
    if case.shape.experts:
        yield "Every expert gets as many tokens as every other, but for what --moe-load-factor says."
    if case.shape.experts and case.values["model.expert_dispatcher"] != "standard":
        yield (
            "Tokens are counted as TorchTitan's standard dispatcher sends them; the buffers of another, which live "
            "through the whole run, are not counted: too low."
        )
