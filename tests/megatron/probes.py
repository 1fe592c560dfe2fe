"""Entries that try single patches in a rank that trains nothing. Each returns what its test looks at."""

from __future__ import annotations

import importlib
import io
import logging
import multiprocessing
import os
import sys
from typing import Any
from unittest import mock

import torch
from megatron.core import mpu
from torch import distributed

from primus_backend_megatron.checkpoints import NAMING
from primus_backend_megatron.rank import arguments, train
from primus_backend_megatron.rank.session import CURRENT, Session
from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def devices(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """What torch says of CUDA, and where tensors for it are made."""
    with torch.device("meta"):
        abstract = torch.zeros(2).device.type
    pinned = torch.tensor([1.0], pin_memory=True)
    return {
        "available": torch.cuda.is_available(),
        "made": {torch.zeros(2, device="cuda:0").device.type, torch.empty(1, device="cuda").device.type, "cpu"}
        == {"cpu"},
        "pinned": pinned.is_pinned(),
        "meta": abstract,
        "moved": torch.nn.Linear(1, 1).cuda(0).weight.to(torch.cuda.current_device()).cuda().device.type,
        "type": torch.zeros(1).type(),
        "cast": str(torch.zeros(1).type(torch.bfloat16).dtype),
        "compiled": torch.compile(devices) is devices and torch.compile(mode="x")(devices) is devices,
    }


def layers(plan: RunPlan, rank: RankContext) -> list[Any]:
    """What Megatron makes of each text that says which layers have experts; None where it fails."""
    from megatron.training.arguments import moe_freq_type

    texts: Any = rank.prepared("truth")["texts"]
    found = []
    for text in texts:
        try:
            found.append(moe_freq_type(text))
        except (ValueError, SyntaxError):
            found.append(None)
    return found


def random_numbers(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """CUDA's generator is the CPU's, and a data loader leaves it alone."""
    from megatron.core import tensor_parallel

    torch.cuda.manual_seed(7)
    first = torch.rand(3).tolist()
    torch.manual_seed(7)
    same = torch.rand(3).tolist() == first
    state = torch.cuda.get_rng_state()
    drawn = torch.rand(3).tolist()
    torch.cuda.set_rng_state(state)
    repeated = torch.rand(3).tolist() == drawn
    told = io.StringIO()
    logging.getLogger("megatron.core.tensor_parallel.random").addHandler(logging.StreamHandler(told))
    tracker = tensor_parallel.random.CudaRNGStatesTracker()
    tracker.add("kind", 11)
    torch.manual_seed(5)
    tracker.add("other", 12)
    kept = torch.initial_seed() == 5
    with tracker.fork("kind"):
        forked = torch.rand(3).tolist()
    torch.manual_seed(11)
    return {
        "same": same,
        "repeated": repeated,
        "kept": kept,
        "forked": torch.rand(3).tolist() == forked,
        "warnings": told.getvalue(),
        "loader": _loads(plan),
    }


def _loads(plan: RunPlan) -> bool:
    from megatron.training.training import build_pretraining_data_loader

    _validated(plan)
    distributed.init_process_group("gloo")
    mpu.initialize_model_parallel()
    before = torch.get_rng_state()
    loader = build_pretraining_data_loader([1, 2, 3, 4], 0)
    read = next(iter(loader)).tolist() == [1, 2]
    return read and bool(torch.equal(before, torch.get_rng_state()))


def stubs(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """The kernels that need Triton, and the helpers that need make."""
    from megatron.core.datasets.utils import compile_helpers
    from megatron.core.transformer.moe.ops import paged_stash

    compile_helpers()
    try:
        paged_stash.paged_stash_copy_kernel()
    except RuntimeError as error:
        return {"block": paged_stash.GLOBAL_BLOCK_SIZE, "error": str(error)}
    return {}


def attention(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """Our core attention against Megatron's own, forward and backward, with and without a mask."""
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.core.transformer.enums import AttnMaskType

    _initialized()
    config = TransformerConfig(
        num_layers=1, hidden_size=32, num_attention_heads=4, num_query_groups=2, attention_dropout=0.0
    )
    causal = torch.ones(8, 8).tril()[None, None] < 0.5
    documents = causal.clone()
    documents[..., 5:, :5] = True
    results: dict[str, Any] = {}
    ours, theirs = LocalSpecProvider().core_attention(), DotProductAttention
    # Megatron's own makes a causal mask only on CUDA.
    for name, given, told in (("causal", None, causal), ("documents", documents, documents)):
        outputs = []
        for kind, mask in ((ours, given), (theirs, told)):
            torch.manual_seed(3)
            query = torch.randn(8, 2, 4, 8, requires_grad=True)
            key, value = torch.randn(8, 2, 2, 8, requires_grad=True), torch.randn(8, 2, 2, 8)
            layer = kind(config=config, layer_number=1, attn_mask_type=AttnMaskType.causal, attention_type="self")
            output = layer(query, key, value, mask)
            output.square().sum().backward()
            outputs.append((output.detach(), query.grad, key.grad))
        results[name] = max(float((one - other).abs().max()) for one, other in zip(*outputs, strict=True))
    return {**results, "kind": ours.__name__}


def norms(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """The norm of a model with sequence parallelism."""
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.torch_norm import WrappedTorchNorm

    options = {"num_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "normalization": "RMSNorm"}
    parallel = TransformerConfig(**options, tensor_model_parallel_size=2, sequence_parallel=True)
    marked = WrappedTorchNorm(parallel, 8, eps=0.5)
    plain = WrappedTorchNorm(TransformerConfig(**options), 8)
    return {
        "kind": type(marked).__name__,
        "eps": marked.eps,
        "marked": [parameter.sequence_parallel for parameter in marked.parameters()],
        "plain": [getattr(parameter, "sequence_parallel", False) for parameter in plain.parameters()],
    }


def sends(plan: RunPlan, rank: RankContext) -> list[float]:
    """What arrives of a tensor that Megatron frees before it has left, as its interleaved pipeline may."""
    from megatron.core.pipeline_parallel import p2p_communication, schedules

    distributed.init_process_group("gloo")
    sent, got = torch.full((1 << 20,), 3.0), torch.zeros(1 << 20)
    sending = rank.rank == 0
    if not sending:
        distributed.barrier()  # gloo sends when somebody receives: by now the tensor is freed
    requests = p2p_communication._p2p_ops(
        tensor_send_prev=None,
        tensor_recv_prev=None if sending else got,
        tensor_send_next=sent if sending else None,
        tensor_recv_next=None,
        group=distributed.group.WORLD,
        prev_pipeline_rank=0,
        next_pipeline_rank=1,
    )
    if sending:
        schedules.deallocate_output_tensor(sent, deallocate_pipeline_outputs=True)
        distributed.barrier()
    for request in requests.values():
        request.wait()
    distributed.barrier()
    distributed.destroy_process_group()
    values: list[float] = got.unique().tolist()
    return values


def imports(plan: RunPlan, rank: RankContext) -> list[str]:
    """Modules of Megatron that do not import everywhere, imported anew."""
    names = ["megatron.training.models.gpt", "megatron.core.transformer.moe.ops.paged_stash"]
    for name in names:
        del sys.modules[name]
        importlib.import_module(name)
    return names


def compiles(plan: RunPlan, rank: RankContext) -> float:
    """One of the functions that Megatron has compiled, where there is no compiler."""
    from megatron.core.jit import jit_fuser

    os.environ["CXX"] = "/no/compiler"
    return float(jit_fuser(lambda x: 2 * x + 1)(torch.ones(1)))


def validates(plan: RunPlan, rank: RankContext) -> str:
    """Megatron's own check of the parameters."""
    arguments.validate(args := arguments.build_namespace(_native(plan)))
    return str(args.params_dtype)


def recomputes(plan: RunPlan, rank: RankContext) -> bool:
    """Whether activations that are computed again have the same dropout: gradients pass where the output did."""
    from megatron.core import tensor_parallel

    _initialized()
    source = torch.ones(100, requires_grad=True)
    output = tensor_parallel.checkpoint(torch.nn.functional.dropout, False, source)
    torch.rand(3)
    output.sum().backward()
    return source.grad is not None and bool(torch.equal(source.grad, output.detach()))


def gathers(plan: RunPlan, rank: RankContext) -> list[float]:
    """Unequal numbers of tokens of two ranks, gathered by Megatron's own function."""
    from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region

    _initialized()
    sizes = [1, 2]
    own = torch.full((sizes[rank.rank],), 1.0 + rank.rank)
    gathered: list[float] = gather_from_sequence_parallel_region(own, True, distributed.group.WORLD, sizes).tolist()
    return gathered


def saves(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """A run that saves: the checkpoints that are known to be whole, and the processes that saving started."""
    result = train.run(plan, rank)
    whole = [item.iteration for item in NAMING.marked(_native(plan)["save"])]
    return {"whole": whole, "known": bool(result["checkpoint"]), "helpers": len(multiprocessing.active_children())}


def marks_in_background(plan: RunPlan, rank: RankContext) -> bool:
    """Whether a checkpoint is declared whole once Megatron has finalized it in the background."""
    from megatron.training.training import maybe_finalize_async_save

    args = _validated(plan)
    args.async_save = True
    NAMING.begin_saving(args.save, 7)
    NAMING.folder(args.save, 7).mkdir(parents=True)
    CURRENT.set(session := Session(plan=plan, rank=rank, unfinished_saves=[7]))
    maybe_finalize_async_save()
    if session.saver:
        session.saver.wait()
    return NAMING.is_whole(args.save, 7)


def deletes(plan: RunPlan, rank: RankContext) -> bool:
    """Whether a checkpoint is still there when Megatron would have it deleted, before the next one is whole."""
    from megatron.training.checkpointing import _async_delete_checkpoint_impl

    save = str(_native(plan)["save"])
    NAMING.finish_saving(save, 7, {})
    _async_delete_checkpoint_impl(save, 7)
    return NAMING.is_whole(save, 7)


def stops(plan: RunPlan, rank: RankContext) -> object:
    """The last iteration of a training that is asked to stop after its first."""
    from primus_backend_megatron.rank.train import run

    with mock.patch.object(rank, "should_stop", lambda iteration, store: iteration == 1):
        return run(plan, rank)["iteration"]


def _initialized() -> None:
    """What Megatron sets up before it makes a model."""
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

    distributed.init_process_group("gloo")
    mpu.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1)


def _native(plan: RunPlan) -> dict[str, Any]:
    return dict(plan.translation.native) if plan.translation else {}


def _validated(plan: RunPlan) -> Any:
    """Megatron's parameters, where Megatron looks for them."""
    from megatron.training.global_vars import set_args

    args = arguments.build_namespace(_native(plan))
    arguments.validate(args)
    set_args(args)
    return args
