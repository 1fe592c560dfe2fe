"""Every patch of torch and Megatron that training may need: target, factory, and what goes wrong without it."""

from __future__ import annotations

from primus_backend_megatron.patch_needs import (
    BACKGROUND_SAVE,
    DELETION,
    DISTRIBUTED_OPTIMIZER,
    EVALUATION,
    EXPERTS,
    PARALLEL_LOAD,
    PIPELINE,
    SAVE,
    SEQUENCE_PARALLEL,
)
from primus_core.planning.patchrows import in_common

TORCH = "torch>=2.13,<2.14"
MEGATRON = "megatron-core>=0.19.2,<0.20"

_RANK = "primus_backend_megatron.rank"
_CUDA = f"{_RANK}.patches.torch_cuda"
_TENSORS = f"{_RANK}.patches.tensors"
_GLOO = f"{_RANK}.patches.collectives"
_MODEL = f"{_RANK}.patches.model"
_OPTIMIZER = f"{_RANK}.patches.optimizer"
_DIST_OPTIMIZER = "megatron.core.optimizer.distrib_optimizer:DistributedOptimizer"

# For Python older than 3.12.
PYTHON = in_common(
    "",
    [
        (
            "typing-override",
            "typing:override",
            f"{_RANK}.patches.imports:typing_override",
            "megatron.training imports typing.override, which Python 3.12 brought: without it nothing starts.",
        )
    ],
)

# In force before Megatron is imported, which copies some of these.
CPU_TORCH = (
    *in_common(
        "",
        [
            (
                "cpu-paged-stash-stub",
                "sys:meta_path",
                f"{_RANK}.patches.imports:finder_of_stubs",
                "Megatron imports the Triton kernels of its MoE stash for every model; a CPU torch has no Triton.",
            )
        ],
    ),
    *in_common(
        TORCH,
        [
            (
                "cpu-compile",
                "torch:compile",
                f"{_CUDA}:identity_compile",
                "Megatron compiles small functions for a GPU; on a CPU that takes a C++ compiler and minutes.",
            ),
            (
                "cpu-current-device",
                "torch.cuda:current_device",
                f"{_CUDA}:current_device",
                "Megatron makes its tensors on the current CUDA device.",
            ),
            (
                "cpu-device-count",
                "torch.cuda:device_count",
                f"{_CUDA}:device_count",
                "With no device Megatron leaves out its process groups and random-number trackers.",
            ),
            (
                "cpu-set-device",
                "torch.cuda:set_device",
                f"{_CUDA}:nothing",
                "Megatron selects each rank's device when it starts.",
            ),
            (
                "cpu-device-properties",
                "torch.cuda:get_device_properties",
                f"{_CUDA}:device_properties",
                "Tensor and context parallelism ask for the generation of the device.",
            ),
            (
                "cpu-synchronize",
                "torch.cuda:synchronize",
                f"{_CUDA}:nothing",
                "Megatron waits for the device before it reads a clock or a buffer.",
            ),
            (
                "cpu-stream",
                "torch.cuda:Stream",
                f"{_CUDA}:stream_class",
                "Megatron overlaps communication on streams that it makes when the model is wrapped.",
            ),
            (
                "cpu-current-stream",
                "torch.cuda:current_stream",
                f"{_CUDA}:current_stream",
                "Megatron makes its streams wait for the current one.",
            ),
            (
                "cpu-lazy-call",
                "torch.cuda:_lazy_call",
                f"{_CUDA}:call_now",
                "Megatron sets random states in a callback that else waits for CUDA for ever: they would never be set.",
            ),
            (
                "cpu-default-generators",
                "torch.cuda:default_generators",
                f"{_CUDA}:default_generators",
                "Megatron sets random states on the device's generator.",
            ),
            (
                "cpu-get-rng-state",
                "torch.cuda:get_rng_state",
                f"{_CUDA}:get_rng_state",
                "Megatron saves the device's random state in checkpoints.",
            ),
            (
                "cpu-random-get-rng-state",
                "torch.cuda.random:get_rng_state",
                f"{_CUDA}:get_rng_state",
                "Megatron repeats the random state of an activation that it computes again.",
            ),
            (
                "cpu-set-rng-state",
                "torch.cuda:set_rng_state",
                f"{_CUDA}:set_rng_state",
                "Megatron switches between random states of the device, and restores them from checkpoints.",
            ),
            (
                "cpu-manual-seed",
                "torch.cuda:manual_seed",
                f"{_CUDA}:manual_seed",
                "Megatron seeds the device's generator for each kind of parameter, else ranks would not agree.",
            ),
            *(
                (
                    f"cpu-{name.replace('_', '-')}",
                    f"torch:{name}",
                    f"{_TENSORS}:on_cpu",
                    'Megatron makes tensors with device="cuda".',
                )
                for name in ("tensor", "zeros", "rand")
            ),
            (
                "cpu-tensor-cuda",
                "torch:Tensor.cuda",
                f"{_TENSORS}:itself",
                "Megatron moves the model and its batches to CUDA.",
            ),
            (
                "cpu-tensor-type",
                "torch:Tensor.type",
                f"{_TENSORS}:cuda_type_name",
                "Megatron's optimizers accept only parameters whose type is named torch.cuda.*.",
            ),
        ],
    ),
    *in_common(
        TORCH,
        [
            (
                f"cpu-{name.replace('_', '-')}",
                f"torch:{name}",
                f"{_TENSORS}:on_cpu",
                'Ranks that load parts of a checkpoint for one another exchange tensors made with device="cuda".',
            )
            for name in ("empty", "empty_like")
        ],
        PARALLEL_LOAD,
    ),
    *in_common(
        TORCH,
        [
            (
                "cpu-all-to-all",
                "torch.distributed:all_to_all_single",
                f"{_GLOO}:all_to_all_lists",
                "The MoE dispatcher gives split sizes as CPU tensors, which gloo refuses.",
            ),
            (
                "cpu-all-gather",
                "torch.distributed:all_gather",
                f"{_GLOO}:all_gather_unequal",
                "Ranks that share experts gather unequal numbers of tokens, which gloo refuses.",
            ),
        ],
        EXPERTS,
    ),
)

# On every platform.
EVERYWHERE = (
    *in_common(
        MEGATRON,
        [
            (
                "metrics",
                "megatron.training.training:train_step",
                f"{_RANK}.metrics:measured_train_step",
                "Metrics of each iteration, with the loss of just that one and the learning rate that it used.",
            ),
            (
                "stop",
                "megatron.training.training:checkpoint_and_decide_exit",
                f"{_RANK}.stopping:stopping_decision",
                "Megatron hears SIGTERM alone, and for that all its ranks exchange tensors after every iteration.",
            ),
            (
                "dataset-helpers",
                "megatron.core.datasets.utils:compile_helpers",
                f"{_MODEL}:built_helpers",
                "Megatron's wheel holds the compiled helpers but no Makefile, and a failed make ends the process.",
            ),
        ],
    ),
    *in_common(
        MEGATRON,
        [
            (
                "evaluation-loss",
                "megatron.training.training:evaluate",
                f"{_RANK}.evaluation:noted_evaluation",
                "Only the ranks of the last pipeline stage know the loss of an evaluation.",
            ),
            (
                "evaluation-notice",
                "megatron.training.training:evaluate_and_print_results",
                f"{_RANK}.evaluation:told_evaluation",
                "Megatron prints the loss of an evaluation among its own messages, which the console does not show.",
            ),
        ],
        EVALUATION,
    ),
    *in_common(
        MEGATRON,
        [
            (
                "checkpoint-marker",
                "megatron.training.training:save_checkpoint",
                f"{_RANK}.saving:marking_save",
                "A checkpoint that was interrupted while it was written could be taken for a whole one.",
            ),
            (
                "checkpoint-queue",
                "megatron.core.dist_checkpointing.strategies.filesystem_async:get_write_results_queue",
                f"{_RANK}.saving:queue_without_process",
                "At its first save each rank starts a process that imports the main program again and outlives a kill.",
            ),
        ],
        SAVE,
    ),
    *in_common(
        MEGATRON,
        [
            (
                "checkpoint-marker-async",
                "megatron.training.training:maybe_finalize_async_save",
                f"{_RANK}.saving:marking_finalize",
                "A checkpoint that is written in the background is whole only when Megatron has finalized it.",
            ),
        ],
        BACKGROUND_SAVE,
    ),
    *in_common(
        MEGATRON,
        [
            (
                "checkpoint-keep",
                "megatron.training.checkpointing:_async_delete_checkpoint_impl",
                f"{_RANK}.saving:keeping",
                "Megatron deletes the checkpoint before the last one while that is not known to be whole.",
            ),
        ],
        DELETION,
    ),
    *in_common(
        MEGATRON,
        [
            (
                "optimizer-state-before-loading",
                f"{_DIST_OPTIMIZER}.sharded_state_dict",
                f"{_OPTIMIZER}:state_before_loading",
                "With torch's Adam the distributed optimizer cannot load a checkpoint before its first step.",
            ),
            (
                "optimizer-own-step-counts",
                f"{_DIST_OPTIMIZER}.load_state_dict",
                f"{_OPTIMIZER}:own_step_counts",
                "With torch's Adam all parameters share one step count after loading: wrong losses.",
            ),
            (
                "optimizer-restore-states",
                f"{_DIST_OPTIMIZER}._set_main_param_and_optimizer_states",
                f"{_OPTIMIZER}:restore_states",
                "Loading fails in fp32, and with torch's Adam it sets every step count to one: wrong losses.",
            ),
        ],
        DISTRIBUTED_OPTIMIZER,
    ),
)

# Where the CPU is the device.
CPU_MEGATRON = (
    *in_common(
        MEGATRON,
        [
            (
                "cpu-initialize",
                "megatron.training.training:initialize_megatron",
                f"{_MODEL}:without_cuda",
                "Megatron refuses to start without CUDA.",
            ),
            (
                "cpu-data-loader",
                "megatron.training.training:build_pretraining_data_loader",
                f"{_MODEL}:loader_with_generator",
                "A loader draws from the CPU's generator, which here is the device's: a resume would change dropout.",
            ),
            (
                "cpu-random-fork",
                "megatron.core.tensor_parallel.random:CudaRNGStatesTracker.fork",
                f"{_CUDA}:quiet_fork",
                "At every dropout Megatron warns that the CPU's generator changed, which here is the device's.",
            ),
            (
                "cpu-attention",
                "megatron.core.models.backends:LocalSpecProvider.core_attention",
                f"{_MODEL}:sdpa_core_attention",
                "Megatron's own attention makes its causal mask on CUDA and has no context parallelism and no "
                "multi-latent attention.",
            ),
        ],
    ),
    *in_common(
        MEGATRON,
        [
            (
                "cpu-norm",
                "megatron.core.transformer.torch_norm:WrappedTorchNorm.__new__",
                f"{_MODEL}:norm_of_sequence_parts",
                "Megatron's only norm without CUDA refuses sequence parallelism.",
            ),
        ],
        SEQUENCE_PARALLEL,
    ),
    *in_common(
        MEGATRON,
        [
            (
                "cpu-send",
                "megatron.core.pipeline_parallel.p2p_communication:_p2p_ops",
                f"{_GLOO}:sending_aliases",
                "Megatron frees activations whose send is on its way; gloo sends what is there later: wrong losses.",
            ),
        ],
        PIPELINE,
    ),
)
