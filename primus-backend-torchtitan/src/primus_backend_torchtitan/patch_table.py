"""Every patch of torch and TorchTitan that training may need: target, factory, and what goes wrong without it."""

from __future__ import annotations

from primus_core.planning.patchrows import above_one, in_common

TORCH = "torch>=2.13,<2.14"
TITAN = "torchtitan>=0.3,<0.4"

_PATCHES = "primus_backend_torchtitan.rank.patches"
_SCHEDULES = "torch.distributed.pipelining.schedules"
_ATTENTION = "torchtitan.models.common.attention"

_PIPELINE = above_one("parallelism.pipeline_parallel_degree")
_CONTEXT = above_one("parallelism.context_parallel_degree")

# On every accelerator: TorchTitan 0.3 is written for a newer torch than the newest release.
EVERYWHERE = (
    *in_common(
        TORCH,
        [
            (
                "process-group-timeout",
                "torch.distributed:set_timeout",
                f"{_PATCHES}.collectives:set_timeout",
                "TorchTitan sets the process groups' timeout after the first step by a name that torch 2.13 lacks.",
            )
        ],
    ),
    *in_common(
        TORCH,
        [
            (
                f"pipeline-micro-batches-{kind}",
                f"{_SCHEDULES}:PipelineSchedule{kind.title()}.step",
                f"{_PATCHES}.pipeline:step_over_micro_batches",
                "TorchTitan hands ready micro batches to the schedule, and torch 2.13 divides a whole batch itself.",
            )
            for kind in ("single", "multi")
        ],
        _PIPELINE,
    ),
)

# Last: resolving it imports all of TorchTitan.
EVERYWHERE_LATE = in_common(
    TITAN,
    [
        (
            "end-together",
            "torchtitan.trainer:Trainer.train",
            f"{_PATCHES}.ending:train_and_meet",
            "Rank 0 sleeps two seconds at the end of every training, in the hope that the other ranks end before it.",
        ),
        (
            "stop",
            "torchtitan.trainer:Trainer.should_continue_training",
            f"{_PATCHES}.ending:continue_unless_stopped",
            "TorchTitan trains to its last step, whatever signal asks it to save and to end.",
        ),
    ],
)

# Before anything of TorchTitan is imported that copies them.
CPU_EARLY = (
    *in_common(
        "",
        [
            (
                "cpu-triton-stub",
                "sys:meta_path",
                f"{_PATCHES}.imports:finder_of_stubs",
                "TorchTitan imports the Triton kernels of one expert-parallel dispatcher for every model; a CPU torch "
                "has no Triton.",
            )
        ],
    ),
    *in_common(
        TITAN,
        [
            (
                "cpu-device-type",
                "torchtitan.tools.utils:device_type",
                f"{_PATCHES}.device:device_type",
                "TorchTitan takes CUDA for the device where it finds none.",
            ),
            (
                "cpu-device-module",
                "torchtitan.tools.utils:device_module",
                f"{_PATCHES}.device:device_module",
                "torch.cpu lacks what TorchTitan asks of a device: memory figures, a name, a current device.",
            ),
            (
                "cpu-peak-flops",
                "torchtitan.tools.utils:get_peak_flops",
                f"{_PATCHES}.device:get_peak_flops",
                "TorchTitan takes an unknown device for an A100, and warns of it.",
            ),
        ],
    ),
    *in_common(
        TORCH,
        [
            (
                "cpu-fsdp-sum",
                "torch.distributed.fsdp:FSDPModule.set_gradient_divide_factor",
                f"{_PATCHES}.collectives:set_gradient_divide_factor",
                "FSDP2 multiplies gradients inside the collective, which gloo cannot.",
            )
        ],
    ),
    *in_common(
        TORCH,
        [
            (
                "cpu-context-mask",
                "torch.distributed.tensor.experimental._context_parallel._attention:_compiled_create_block_mask",
                f"{_PATCHES}.attention:create_block_mask",
                "The mask of a part of the sequence would be compiled, which takes a C++ compiler and a minute.",
            )
        ],
        _CONTEXT,
    ),
)

CPU_TITAN = in_common(
    TITAN,
    [
        (
            "cpu-attention",
            f"{_ATTENTION}:FlexAttention._compiled_flex_attn",
            f"{_PATCHES}.attention:masked_attention",
            "flex_attention has no backward on a CPU.",
        ),
        (
            "cpu-attention-mask",
            f"{_ATTENTION}:_compiled_create_block_mask",
            f"{_PATCHES}.attention:create_block_mask",
            "The mask would be compiled for every new shape, which takes a C++ compiler and seconds.",
        ),
        (
            "cpu-parameter-init",
            "torchtitan.protocols.module:Module._init_param",
            f"{_PATCHES}.initialization:init_param",
            "Ranks that share a tensor would each draw the same numbers for their own part of it.",
        ),
    ],
)
