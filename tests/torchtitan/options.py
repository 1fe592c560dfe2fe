"""Parameters of TorchTitan that change the memory of a step, each switched in a model in which it has an effect; and
those that need neither a figure nor a note of their own."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.experiment import Value
from tests.torchtitan.families import MIXTURE
from tests.torchtitan.truth.layouts import EP, PP, TP
from tests.torchtitan.truth.live_cases import DENSE, LOSS, PIECES, RECOMPUTE, RESHARD, SEQUENCE_PARALLEL, Params

_GRAPHS: Params = {"training.disable_cuda_graphs": True}
BASE: Params = {**DENSE, **_GRAPHS, "global_batch_size": 16}
"""A plain model of eight ranks, of which nothing is told."""
_COMPILED: Params = {"compile.enable": True}
_SELECTIVE: Params = {RECOMPUTE: "selective"}
_EXPERTS: Params = {**MIXTURE, EP: 2}
_FLOAT8: list[Value] = [{"kind": "float8_linear"}]

SWITCHES: tuple[tuple[Params, Params], ...] = (
    ({}, {"compile.enable": True}),
    (_COMPILED, {RECOMPUTE: "memory_budget"}),
    ({**_COMPILED, TP: 2}, {"compile.enable_async_tensor_parallel": True}),
    ({}, {RECOMPUTE: "full"}),
    ({}, {RECOMPUTE: "selective"}),
    ({**_SELECTIVE, "num_layers": 8}, {"activation_checkpoint.force_recompute_mm_shapes_by_fqns": ["attention.wo"]}),
    ({}, {"training.enable_cpu_offload": True}),
    ({}, {"training.disable_cuda_graphs": False}),
    ({}, {"parallelism.enable_fsdp_symm_mem": True}),
    ({}, {RESHARD: "never"}),
    ({TP: 2}, {SEQUENCE_PARALLEL: False}),
    ({}, {LOSS: "cross_entropy"}),
    ({LOSS: "chunked"}, {PIECES: 2}),
    ({}, {"optimizer.implementation": "fused_opt_states_bf16"}),
    ({}, {"training.dtype": "bfloat16"}),
    ({"bf16": None}, {"training.mixed_precision_param": "bfloat16"}),
    ({}, {"debug.detect_anomaly": True}),
    ({}, {"debug.deterministic": True}),
    ({}, {"debug.batch_invariant": True}),
    ({}, {"override.imports": ["a_module"]}),
    ({}, {"model.converters": _FLOAT8}),
    (_EXPERTS, {"model.expert_dispatcher": "deepep"}),
    ({PP: 2, "num_layers": 8}, {"parallelism.pipeline_parallel_schedule_csv": "order.csv"}),
    (MIXTURE, {EP: 2}),
)
"""A base, and what is switched in it."""

BESIDE: Mapping[str, tuple[str, ...]] = {
    "compile.enable": ("compile.backend", "compile.components"),
    RECOMPUTE: ("activation_checkpoint.memory_budget", "activation_checkpoint.visualize_memory_budget_pareto"),
    "debug.deterministic": ("debug.deterministic_warn_only",),
}
"""What acts only where another parameter is on, of which a note is told, by that parameter."""

NO_MEMORY: Mapping[str, tuple[str, ...]] = {
    "in the memory of the host, on a disk or on the console": (
        "activation_checkpoint.debug",
        "checkpoint.export_dtype",
        "checkpoint.initial_load_in_hf_quantized",
        "debug.enable_structured_logging",
        "debug.print_config",
        "debug.save_config_file",
    ),
    "a few bytes for each layer": (
        "activation_checkpoint.determinism_check",
        "activation_checkpoint.preserve_rng_state",
    ),
    "kernels of attention that keep the same: what they read, their result and a number for each row": (
        "model.attention",
    ),
    "they have one value": ("model.moe_router_dtype", "training.mixed_precision_reduce"),
    "a number, or where tokens go": ("debug.seed", "debug.moe_force_load_balance"),
    "it checks types, which have no values": ("debug.spmd_typechecking",),
}
"""Why parameters change no memory of a training step on the GPU."""
