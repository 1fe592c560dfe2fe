"""Entries that try single patches in a rank that trains nothing. Each returns what its test looks at."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed

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
    tracker = tensor_parallel.random.CudaRNGStatesTracker()
    tracker.add("kind", 11)
    with tracker.fork("kind"):
        forked = torch.rand(3).tolist()
    torch.manual_seed(11)
    return {"same": same, "repeated": repeated, "forked": torch.rand(3).tolist() == forked, "loader": _loads(plan)}


def _loads(plan: RunPlan) -> bool:
    from megatron.core import mpu
    from megatron.training.global_vars import set_args
    from megatron.training.training import build_pretraining_data_loader

    from primus_backend_megatron.rank import arguments

    args = arguments.build_namespace(plan.translation.native if plan.translation else {})
    arguments.validate(args)
    set_args(args)
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
    from megatron.core import mpu
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.core.transformer.enums import AttnMaskType

    distributed.init_process_group("gloo")
    mpu.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1)
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


def exchanges(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """A tensor whose storage is replaced while it is being sent, and split sizes that are tensors."""
    from megatron.core.pipeline_parallel import p2p_communication

    distributed.init_process_group("gloo")
    received = {}
    for name in ("_p2p_ops", "_batched_p2p_ops"):
        sent = torch.full((1 << 20,), 3.0 + rank.rank)
        got = torch.zeros(1 << 20)
        requests = getattr(p2p_communication, name)(
            tensor_send_prev=sent if rank.rank else None,
            tensor_recv_prev=got if rank.rank else None,
            tensor_send_next=None if rank.rank else sent,
            tensor_recv_next=None if rank.rank else got,
            group=distributed.group.WORLD,
            prev_pipeline_rank=0,
            next_pipeline_rank=1,
        )
        sent.data = torch.zeros(1 << 20)
        for request in requests.values() if isinstance(requests, dict) else requests:
            request.wait()
        received[name] = got.unique().tolist()
        distributed.barrier()
    halves = torch.empty(2)
    splits = torch.tensor([1, 1])
    distributed.all_to_all_single(halves, torch.tensor([10.0, 20.0]) + rank.rank, splits, splits)
    distributed.destroy_process_group()
    return {**received, "all to all": halves.tolist()}
