"""A model as a back end would build and train it on the ranks of one layout: all that projection reads.

Everything here is arithmetic on the experiment: no tensor exists. Blocks are told once and counted, so a model of a
hundred layers on a hundred thousand ranks is as small as one of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

DType = Literal["fp64", "fp32", "bf16", "fp16", "fp8", "int64", "int32", "int8", "bool"]

DTYPE_BYTES: Mapping[DType, int] = {
    "fp64": 8,
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "bool": 1,
}

Group = Literal["tensor", "context", "pipeline", "data", "expert", "expert_tensor", "expert_data", "shard", "replicate"]
"""A kind of process group. ``data`` and ``expert_data`` are the ranks that hold the same dense and expert weights
(context parallel ranks among them); ``shard`` and ``replicate`` divide ``data`` where weights are fully sharded."""

Scheme = Literal["replicated", "distributed_optimizer", "fully_sharded"]
ScheduleName = Literal["none", "gpipe", "1f1b", "interleaved_1f1b", "looped_bfs", "zero_bubble", "zbv", "dualpipev"]


@frozen(kw_only=True, cache_hash=True)
class Parameter:
    """A tensor that the library allocates with the model, trained or a buffer."""

    name: str
    """Within its block: ``attention.linear_qkv.weight``."""
    shape: tuple[int, ...]
    """Of the whole tensor, padding included."""
    dtype: DType
    """Of the copy that the forward pass computes with."""
    axes: tuple[Group | None, ...] = ()
    """By dimension, the group that divides it (the last shares may be smaller or empty); shorter than the shape:
    the other dimensions are whole."""
    spread: Group | None = None
    """Each rank of this group has a tensor of its own of this shape, such as one expert of many."""
    expert: bool = False
    """Its copies are on the ranks of ``expert_data`` and not of ``data``."""
    shared: bool = False
    """A copy of a parameter that another block has, such as a tied output layer; not counted in the model's total.
    With ``fully_sharded`` both are one tensor, which is gathered and reduced twice."""
    order: int = 0
    """In a chunk of the model it is registered after all tensors of a lower order; of one order, as blocks follow."""
    apart: bool = False
    """With ``distributed_optimizer`` nothing else is in its bucket."""
    state: int | None = None
    """Bytes of the optimizer's state of the part that tensor and expert parallelism leave a rank; None: `moments` of
    its elements. Ranks that share the optimizer's work have shares of it."""
    shard_dimension: int = 0
    """The dimension that ``fully_sharded`` divides."""
    partial: bool = False
    """With ``fully_sharded``: each rank of the groups that divide it computes a part of a sum, which is as large as the
    whole tensor; it has a share of this once gradients are reduced."""


@frozen(kw_only=True, cache_hash=True)
class Activation:
    """The storage of one tensor that a micro batch makes on one rank."""

    name: str
    """Unique in its block. ``input`` is what the block before it made."""
    bytes: int
    gradient: int | None = None
    """Bytes of its gradient; None: as many as it has itself; 0: it has none."""


@frozen(kw_only=True, cache_hash=True)
class Operator:
    """One step of a block's forward pass, and the backward pass that autograd makes of it.

    Forward: `makes` and `scratch` are allocated beside what lives; then `scratch` is freed, and each activation that no
    later operator reads or holds and no operator keeps. Backward, in reverse order: the gradients of what it read, of
    its weights and `backward_scratch` are allocated beside the gradients of what it made; then these, the scratch and
    what it alone kept are freed. All bytes are of one micro batch on one rank.
    """

    name: str
    component: str
    """Of the model, for tables: ``attention``, ``mlp``, ``experts``, ``norm``, ``embedding``, ``head``, ``loss``."""
    reads: tuple[str, ...] = ()
    makes: tuple[Activation, ...] = ()
    keeps: tuple[str, ...] = ()
    """Activations, read or made, that stay until its backward has run."""
    holds: tuple[str, ...] = ()
    """Activations that the library's code still refers to while this runs."""
    scratch: int = 0
    backward_scratch: int = 0
    passes: tuple[str, ...] = ()
    """Activations read whose gradient is that of what it made itself, as of an addition: nothing is allocated."""
    weights: tuple[str, ...] = ()
    """Parameters whose gradients its backward makes."""
    waits: int | None = None
    """Bytes of the gradient that those are computed from, where they come later than those of activations. None: of
    that of what it makes, which is not copied."""
    flops: int = 0
    """Of the forward pass, a multiplication and an addition counted as two, for one micro batch on all ranks that share
    it (tensor and context parallel ones): what the model needs, the same in every layout. Experts are counted for the
    tokens of this micro batch, wherever they are. The backward pass has twice as many unless told otherwise."""
    hardware_flops: int | None = None
    """What these ranks run forward where that is more: each of several makes the same product, or rows of padding are
    multiplied. None: `flops`."""
    backward_flops: int | None = None
    """What they run backward. None: twice as many as forward."""
    causal: bool = False
    """`flops` counts whole attention, of which a causal mask needs half."""
    routed: bool = False
    """Sizes of what it makes and of its scratch follow the tokens that the rank's experts get from all; told as if
    every expert got as many as every other."""


@frozen(kw_only=True, cache_hash=True)
class Recomputed:
    """A part of a block whose activations are not kept: it runs again in the backward pass from what it read."""

    first: str
    """Name of the first operator."""
    last: str
    keeps_output: bool = True
    """False: the output is dropped too, once what follows has read it, and comes back with the rest."""
    before: str = ""
    """Name of a later operator: what is dropped stays until it has run forward, and the part runs again before its
    backward; empty: what follows tells when."""
    saves: tuple[str, ...] = ()
    """Activations made in it that are kept nevertheless, and not made again."""


@frozen(kw_only=True, cache_hash=True)
class Block:
    """One kind of part of the model: the embedding, a layer, the head with the loss."""

    parameters: tuple[Parameter, ...] = ()
    """In the order in which the library registers them."""
    buffers: tuple[Parameter, ...] = ()
    gathers: tuple[Parameter, ...] | None = None
    """What ``fully_sharded`` gathers for it: others' parameters too, or none where others' gather its own; None: its
    own."""
    gathers_again: tuple[Parameter, ...] = ()
    """What arrives again for its backward pass: what was freed after its forward pass, or during it."""
    reduces: tuple[Parameter, ...] | None = None
    """Whose gradients ``fully_sharded`` reduces when it has run backward. None: its own."""
    operators: tuple[Operator, ...] = ()
    recomputed: tuple[Recomputed, ...] = ()
    resharded: bool = True
    """False: its gathered weights stay between forward and backward though those of others are freed."""
    reduced_early: int = 0
    """Bytes of the shards of its weights' gradients that are reduced after each micro batch; of a rank's blocks the
    largest counts."""
    workspace: int = 0
    """Bytes that the library allocates at first use and keeps; of a rank's blocks the largest counts."""
    leaves: int = 0
    """Bytes that stay once it has run backward, until its micro batch has: of a gradient that it makes, of a weight
    that an earlier block of the chunk reads too, or of an output that the library still refers to."""
    remains: int = 0
    """Bytes that stay once what runs again has run backward, until it runs forward: its input and, half of it, the
    gradient of this, which the library still refers to; of blocks that run again together once."""


@frozen(kw_only=True)
class Run:
    """Blocks of one kind, one after the other."""

    block: str
    count: int = 1
    recompute: int = 0
    """Groups of so many blocks keep their input alone and run again in the backward pass; 0: none."""


@frozen(kw_only=True)
class Sharding:
    """Who holds weights, gradients and the optimizer's state, and in which form."""

    scheme: Scheme
    gradient: DType
    """Of the gradients that are accumulated and reduced; with ``fully_sharded`` while they are reduced."""
    main: DType | None
    """Of the optimizer's own copy of the weights; None: it works on the weights themselves. With ``fully_sharded`` it
    is the format of the shards and of their gradients, and `Parameter.dtype` that of the weights that are gathered."""
    copy: DType | None = None
    """With ``fully_sharded``: of the optimizer's own copy of the shards, where it does not work on them themselves."""
    moments: tuple[DType, ...]
    """Of the optimizer's state, each as large as the weights."""
    bucket: int | None = None
    """Elements of a bucket of ``replicated`` and ``distributed_optimizer``; None: one bucket."""
    multiple: int = 128
    """Buckets of ``distributed_optimizer`` end at multiples of it."""
    optimizer: Literal["fused", "foreach", "for-loop"] = "fused"
    """How its step is computed, in PyTorch's words: in kernels that allocate nothing, over all tensors at once, or one
    tensor after the other."""
    copies_gradients: bool = False
    """It works on copies of the gradients in the format of `main`."""
    reshard_after_forward: bool = True
    """With ``fully_sharded``: gathered weights are freed between forward and backward."""
    gathers_ahead: bool = False
    """With ``fully_sharded``: the next block's weights arrive while a block runs forward, as they do backward."""


@frozen(kw_only=True)
class Schedule:
    """In which order the micro batches of an optimizer step run forward and backward."""

    name: ScheduleName
    micro_batches: int
    boundary: int = 0
    """Bytes of what one stage sends to the next for a micro batch."""
    keeps_sent: bool = False
    """What was sent stays until its micro batch has run backward."""
    forward_beside: tuple[int, ...] = ()
    """By pipeline rank, bytes of earlier sent and received tensors that the library still refers to while a micro batch
    runs forward, once one has run backward; empty: none."""
    backward_beside: tuple[int, ...] = ()
    """While one runs backward, beside the gradient of its output."""
    remains: tuple[int, ...] = ()
    """Bytes of tensors between stages that the library still refers to when the optimizer works; empty: none."""
    names_last: bool = False
    """The library refers to what each chunk received last, and its gradient, until the chunk receives again; and to
    what was sent after a forward pass until the backward pass that follows has run."""
    receives_ahead: bool = False
    """With `names_last`: what the next forward pass reads has come when one runs backward; the library refers to what
    came so for the first of these, and its gradient, to the end of the step."""
    holds_gradient: bool = False
    """The gradient that the next stage sent stays until its micro batch has run backward."""
    keeps_given: Literal["", "weights", "step"] = ""
    """Where gradients of weights come later, that of what a stage received stays until these are there, or to the end
    of the step."""
    round: int | None = None
    """Micro batches that a chunk runs before the next chunk, with several chunks; None: one for each pipeline rank."""
    buffers: int = 0
    """Bytes of receive buffers that live through the whole step."""
    received: tuple[int, ...] = ()
    """By pipeline rank, bytes of all that is received in a step, where its buffers live through all steps and nothing
    else is allocated for it; empty: each is allocated as it comes."""


@frozen(kw_only=True)
class Saving:
    """A change of an experiment that saves memory, in the back end's own words."""

    settings: Mapping[str, str]
    """Parameters by name, as a command line says them."""
    cost: str
    """What it costs beside memory, in a few words."""
    repeats: Literal["nothing", "part", "all"] = "nothing"
    """How much of the forward pass runs twice."""
    tensor: bool = False
    """It goes with dividing tensors among more ranks, and is nothing by itself."""
    stages: int = 0
    """Pipeline stages that it cuts the layers into, equal ones or not: the settings are those beside their number.
    0: it leaves them."""


@frozen(kw_only=True)
class ModelShape:
    """A model on the ranks of one layout.

    Attributes:
        groups: sizes of the process groups; one that is absent has one rank.
        blocks: by kind.
        stages: by pipeline rank, by chunk of it (virtual stages), the blocks in order.
        tokens: of one micro batch of one sequence-owning replica: micro batch size x sequence length.
        samples: of one optimizer step over all ranks.
        sequence: tokens of a sample.
        table: how the operators are computed: ``local`` one by one, or ``fused``.
    """

    groups: Mapping[Group, int]
    blocks: Mapping[str, Block]
    stages: tuple[tuple[tuple[Run, ...], ...], ...]
    sharding: Sharding
    schedule: Schedule
    tokens: int
    samples: int
    sequence: int
    table: Literal["local", "fused"] = "local"
    recomputing: Literal["whole", "through", "needed"] = "whole"
    """How far a recomputed part runs again: ``whole``, its output held until its backward has run; ``through`` to its
    end, its output let go at once (PyTorch's checkpoint without early stop); or until all that ``needed`` is has been
    made (with early stop)."""
    notes: tuple[str, ...] = field(default=())
    """Assumptions, a sentence each, that a reader of the figures must know."""
    savings: tuple[Saving, ...] = field(default=())
    """What the back end can do with less memory, the cheapest first; advised where a model does not fit."""

    def group(self, name: Group | None) -> int:
        """Number of ranks of a group; 1 for none."""
        return self.groups.get(name, 1) if name else 1
