"""Models and layouts whose memory is compared with that of TorchTitan's own steps: chosen ones, and drawn ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from primus_backend_torchtitan import host
from primus_core.experiment import Value
from primus_core.plan import Accelerator, RunPlan
from primus_core.projection.iteration import Peak, peak
from primus_core.projection.routing import unbalanced
from primus_core.shape import ModelShape
from tests.torchtitan.experiments import MOCK, plan_of
from tests.torchtitan.families import BIASED, DEEPSEEK, MIXTURE, NORMALIZED
from tests.torchtitan.truth.comparing import shape_of
from tests.torchtitan.truth.layouts import COPIES, CP, EP, PP, SCHEDULE, TP
from tests.torchtitan.truth.places import place_of, stage_of
from tests.truth import steps

Params = Mapping[str, Value]

DENSE: Params = {
    **MOCK,
    "hidden_size": 256,
    "ffn_hidden_size": 768,
    "num_attention_heads": 8,
    "num_query_groups": 4,
    "seq_length": 256,
    "max_position_embeddings": 256,
    "vocab_size": 2048,
    "bf16": True,
}
SEQUENCE_PARALLEL = "parallelism.enable_sequence_parallel"
RESHARD = "parallelism.fsdp_reshard_after_forward"
RECOMPUTE = "activation_checkpoint.kind"
PIECES, LOSS = "loss.num_chunks", "loss.kind"
BATCH = "parallelism.pipeline_parallel_microbatch_size"


@frozen(kw_only=True)
class Case:
    """A model on so many ranks, and the rank to look at."""

    name: str
    params: Params
    ranks: int = 1
    rank: int = 0
    fused: bool = False
    load: float = 1
    """Tokens of this rank's experts, over those of a mean rank's."""

    def plan(self, workspace: str = "/workspace") -> RunPlan:
        """As `primus run` makes it: fused kernels are those of a GPU."""
        kind: Accelerator = "cuda" if self.fused else "cpu"
        return plan_of({**DENSE, **self.params}, ranks=self.ranks, accelerator=kind, workspace=workspace)

    def asked(self) -> dict[str, Any]:
        """What `tests.torchtitan.truth.live_step.measured` is given."""
        plan = self.plan()
        assert plan.translation
        return {
            "native": dict(plan.translation.native),
            "version": plan.target.library_version,
            "world": self.ranks,
            "rank": self.rank,
            "fused": self.fused,
            "load": self.load,
        }

    def shape(self) -> ModelShape:
        """What the back end tells."""
        return unbalanced(shape_of(self.plan()), self.load)

    def projected(self) -> Peak:
        """What projection says of this rank."""
        shape = self.shape()
        return peak(shape, stage_of(shape, self.rank))

    def optimizing(self) -> int:
        """Bytes that projection says live on this rank while its optimizer works."""
        shape = self.shape()
        return steps.optimizing(shape, stage_of(shape, self.rank), place_of(shape, self.rank))


MIXED: Params = {**MIXTURE, "moe_ffn_hidden_size": 256, "moe_aux_loss_coeff": 0.0, "num_experts": 8}
_LATENT: Params = {
    **DEEPSEEK,
    "q_lora_rank": 96,
    "kv_lora_rank": 64,
    "qk_head_dim": 32,
    "qk_pos_emb_head_dim": 16,
    "v_head_dim": 32,
    "moe_ffn_hidden_size": 128,
    "moe_shared_expert_intermediate_size": 128,
    "moe_aux_loss_coeff": 0.0,
    "yarn_original_max_position_embeddings": 128,
}
ONCE: Params = {"global_batch_size": 2}
WHOLE: Params = {LOSS: "cross_entropy"}
LONG: Params = {"seq_length": 512, "max_position_embeddings": 512, "vocab_size": 512, "num_layers": 4}
_PIPED: Params = {**LONG, PP: 2, "num_layers": 8, "global_batch_size": 16}
"""Eight micro batches."""
LARGE: Params = {**ONCE, "seq_length": 128, "max_position_embeddings": 128, "vocab_size": 8192, "num_layers": 3}
"""More weights than tokens."""
TIED: Params = {**LARGE, "untie_embeddings_and_output_weights": False}
STAGED: Params = {**_PIPED, "seq_length": 128, "max_position_embeddings": 128}
_NARROW: Params = {**STAGED, SEQUENCE_PARALLEL: False, "global_batch_size": 8}
_SHARED: Params = {
    **_LATENT,
    **LARGE,
    "num_layers": 4,
    "moe_layer_freq": "([0]*1+[1]*3)",
    "moe_shared_expert_intermediate_size": 512,
}

CHOSEN = (
    Case(name="dense", params=ONCE),
    Case(name="loss at once", params={**ONCE, **WHOLE}),
    Case(name="fp32", params={**ONCE, "bf16": False}),
    Case(name="fp32, loss at once", params={**ONCE, **WHOLE, "bf16": False}),
    Case(name="four passes", params={}),
    Case(name="biases", params={**BIASED, **ONCE}),
    Case(name="queries, keys and values apart", params={**ONCE, **LONG, "model.fuse_qkv": False}),
    Case(name="norms of queries and keys", params={**NORMALIZED, **ONCE, **LONG}),
    Case(name="four shards", params={"global_batch_size": 8}, ranks=4),
    Case(name="four shards, two passes", params={"global_batch_size": 16}, ranks=4, rank=2),
    Case(name="four shards, loss at once", params={"global_batch_size": 8, **WHOLE}, ranks=4),
    Case(name="two shards, two copies", params={"global_batch_size": 8, COPIES: 2}, ranks=4),
    Case(name="never resharded", params={"global_batch_size": 4, **WHOLE, RESHARD: "never"}, ranks=2),
    Case(name="tensor and sequence parallel", params={**ONCE, TP: 2}, ranks=2),
    Case(name="tensor and sequence parallel, loss at once", params={**ONCE, **WHOLE, TP: 2}, ranks=2),
    Case(name="tensor parallel", params={**ONCE, TP: 2, SEQUENCE_PARALLEL: False}, ranks=2),
    Case(name="tensor parallel, two shards", params={"global_batch_size": 4, **LONG, TP: 2}, ranks=4),
    Case(
        name="tensor parallel, recomputed",
        params={**ONCE, **LONG, TP: 2, SEQUENCE_PARALLEL: False, RECOMPUTE: "full"},
        ranks=2,
    ),
    Case(
        name="tensor parallel on four ranks, recomputed in part",
        params={**ONCE, **LONG, TP: 4, SEQUENCE_PARALLEL: False, RECOMPUTE: "selective"},
        ranks=4,
    ),
    Case(name="context parallel", params={**ONCE, CP: 2}, ranks=2),
    Case(name="context parallel, long", params={**ONCE, **LONG, CP: 2}, ranks=2),
    Case(name="recomputed", params={**ONCE, **LONG, RECOMPUTE: "full"}),
    Case(name="recomputed in part", params={**ONCE, **LONG, RECOMPUTE: "selective"}),
    Case(name="experts", params={**MIXED, **ONCE}),
    Case(name="experts, recomputed", params={**MIXED, **ONCE, **LONG, RECOMPUTE: "full"}),
    Case(name="experts, recomputed in part", params={**MIXED, **ONCE, **LONG, RECOMPUTE: "selective"}),
    Case(name="experts on two shards", params={**MIXED, "global_batch_size": 4}, ranks=2),
    Case(name="latent attention", params={**_LATENT, **ONCE, "moe_layer_freq": "([0]*2)"}),
    Case(name="latent attention with experts", params={**_LATENT, **ONCE, "moe_layer_freq": "([0]*1+[1]*1)"}),
    Case(name="fused", params={**ONCE, **LONG}, fused=True),
    Case(name="fused, loss at once", params={**ONCE, **LONG, **WHOLE}, fused=True),
    Case(name="fused, recomputed in part", params={**ONCE, **LONG, RECOMPUTE: "selective"}, fused=True),
    Case(name="fused, tensor and sequence parallel", params={**ONCE, **LONG, TP: 2}, ranks=2, fused=True),
    Case(name="fused, context parallel", params={**ONCE, **LONG, CP: 2}, ranks=2, fused=True),
    Case(name="fused, latent attention", params={**_LATENT, **ONCE, **LONG, "moe_layer_freq": "([0]*4)"}, fused=True),
    Case(name="fused, experts", params={**MIXED, **ONCE, **LONG}, fused=True),
    Case(name="sequence parallel, recomputed", params={**ONCE, **LONG, TP: 2, RECOMPUTE: "full"}, ranks=2),
    Case(name="experts, sequence parallel", params={**MIXED, **ONCE, **LONG, TP: 2}, ranks=2),
    Case(name="experts of two ranks", params={**MIXED, **LONG, "global_batch_size": 4, EP: 2}, ranks=2),
    Case(name="experts of two ranks, sequence parallel", params={**MIXED, **ONCE, **LONG, TP: 2, EP: 2}, ranks=2),
    Case(name="first of two stages", params={**_PIPED, SCHEDULE: "1F1B"}, ranks=2),
    Case(name="last of two stages, fused", params={**_PIPED, SCHEDULE: "1F1B"}, ranks=2, rank=1, fused=True),
    Case(
        name="third of four stages, two shards",
        params={**_PIPED, PP: 4, "global_batch_size": 32, SCHEDULE: "1F1B"},
        ranks=8,
        rank=5,
    ),
    Case(name="last of two stages, loss at once", params={**_PIPED, **WHOLE, SCHEDULE: "1F1B"}, ranks=2, rank=1),
    Case(name="two stages, GPipe, fused", params={**_PIPED, SCHEDULE: "GPipe"}, ranks=2, fused=True),
    Case(name="interleaved, fused", params={**_PIPED, SCHEDULE: "Interleaved1F1B"}, ranks=2, fused=True),
    Case(name="zero bubble, fused", params={**_PIPED, SCHEDULE: "InterleavedZeroBubble"}, ranks=2, fused=True),
    Case(name="last of zero bubble", params={**_PIPED, **WHOLE, SCHEDULE: "InterleavedZeroBubble"}, ranks=2, rank=1),
    Case(
        name="zero bubble, recomputed",
        params={**_PIPED, SCHEDULE: "InterleavedZeroBubble", RECOMPUTE: "full"},
        ranks=2,
        rank=1,
        fused=True,
    ),
    Case(name="zero bubble there and back", params={**_PIPED, **WHOLE, SCHEDULE: "ZBVZeroBubble"}, ranks=2),
    Case(name="turn of zero bubble", params={**_PIPED, SCHEDULE: "ZBVZeroBubble"}, ranks=2, rank=1, fused=True),
    Case(name="DualPipeV", params={**_PIPED, **WHOLE, SCHEDULE: "DualPipeV"}, ranks=2),
    Case(name="turn of DualPipeV", params={**_PIPED, SCHEDULE: "DualPipeV"}, ranks=2, rank=1, fused=True),
    Case(name="last of breadth first", params={**_PIPED, SCHEDULE: "LoopedBFS"}, ranks=2, rank=1, fused=True),
    Case(
        name="last of GPipe, recomputed",
        params={**_PIPED, SCHEDULE: "GPipe", RECOMPUTE: "full"},
        ranks=2,
        rank=1,
        fused=True,
    ),
    Case(
        name="never resharded, recomputed in part, fused",
        params={**ONCE, **WHOLE, "global_batch_size": 1, "num_layers": 4, RESHARD: "never", RECOMPUTE: "selective"},
        fused=True,
    ),
    Case(name="never resharded, large", params={**LARGE, "global_batch_size": 4, RESHARD: "never"}, ranks=2),
    Case(name="resharded at once", params={**LARGE, **WHOLE, RESHARD: "always"}, ranks=2),
    Case(name="tied", params=TIED),
    Case(name="tied, tensor parallel", params={**TIED, TP: 2}, ranks=4),
    Case(name="tied, tensor parallel, loss at once", params={**TIED, **WHOLE, TP: 2}, ranks=4),
    Case(name="tied, never resharded, fused", params={**TIED, **WHOLE, RESHARD: "never"}, ranks=2, fused=True),
    Case(name="experts cut by features", params={**MIXED, **LARGE, "num_experts": 4, EP: 2}, ranks=8, fused=True),
    Case(name="shared experts", params={**_SHARED, "global_batch_size": 4, EP: 2, TP: 2}, ranks=4, fused=True),
    Case(
        name="experts of two ranks that get more tokens, fused",
        params={**MIXED, **LONG, "global_batch_size": 4, EP: 2},
        ranks=2,
        fused=True,
        load=1.5,
    ),
    Case(
        name="experts of four ranks that get twice as many tokens, tensor parallel",
        params={**MIXED, **LONG, "global_batch_size": 4, EP: 4, TP: 2},
        ranks=4,
        rank=1,
        load=2,
    ),
    Case(
        name="sums of two stages, two copies",
        params={**STAGED, **WHOLE, TP: 4, COPIES: 2, RECOMPUTE: "full", SCHEDULE: "GPipe", "vocab_size": 8192},
        ranks=16,
        rank=4,
        fused=True,
    ),
    Case(
        name="last of two stages, two shards",
        params={**_PIPED, "global_batch_size": 32, "vocab_size": 8192, SCHEDULE: "1F1B"},
        ranks=4,
        rank=3,
        fused=True,
    ),
    Case(name="stage in fp32", params={**STAGED, "bf16": False, "vocab_size": 8192, SCHEDULE: "1F1B"}, ranks=2),
    Case(name="resharded stage", params={**STAGED, RESHARD: "always", SCHEDULE: "1F1B"}, ranks=2, fused=True),
    Case(
        name="resharded stage, interleaved",
        params={**STAGED, RESHARD: "always", SCHEDULE: "Interleaved1F1B"},
        ranks=2,
        fused=True,
    ),
    Case(
        name="experts of four stages, interleaved",
        params={**MIXED, **STAGED, PP: 4, "global_batch_size": 16, RESHARD: "never", SCHEDULE: "Interleaved1F1B"},
        ranks=8,
        rank=2,
        fused=True,
    ),
    Case(
        name="latent attention, recomputed in part",
        params={**_LATENT, **ONCE, **LONG, "moe_layer_freq": "([0]*1+[1]*3)", RECOMPUTE: "selective"},
    ),
    Case(
        name="stage of tensor parallel ranks",
        params={**_NARROW, PP: 4, TP: 4, SCHEDULE: "1F1B", "hidden_size": 384, "ffn_hidden_size": 1024},
        ranks=16,
        rank=4,
    ),
    Case(
        name="tensor parallel stage with latent attention",
        params={**_LATENT, **_NARROW, TP: 2, SCHEDULE: "1F1B", "num_layers": 6, "moe_layer_freq": "([0]*3+[1]*3)"},
        ranks=4,
    ),
    Case(
        name="tensor parallel in fp32, latent attention, recomputed in part",
        params={
            **_LATENT,
            **ONCE,
            **LONG,
            TP: 4,
            RECOMPUTE: "selective",
            "bf16": False,
            "num_layers": 3,
            "moe_layer_freq": "([0]*1+[1]*2)",
        },
        ranks=4,
    ),
    Case(
        name="experts of two ranks, recomputed in part, fused",
        params={**MIXED, **LONG, "global_batch_size": 4, TP: 2, EP: 2, RECOMPUTE: "selective"},
        ranks=2,
        fused=True,
    ),
    Case(
        name="last of breadth first, latent attention, tensor parallel",
        params={
            **_LATENT,
            **LONG,
            PP: 2,
            TP: 2,
            SCHEDULE: "LoopedBFS",
            RECOMPUTE: "selective",
            "micro_batch_size": 1,
            "global_batch_size": 2,
            "hidden_size": 384,
            "vocab_size": 8192,
            "moe_layer_freq": "([0]*1+[1]*3)",
        },
        ranks=4,
        rank=2,
    ),
)
"""With each option that is told apart, and without."""

OPTIMIZERS = (Case(name="one tensor after the other", params={**ONCE, "optimizer.implementation": "for-loop"}),)
"""One in which the optimizer's step itself needs other memory than in those above."""

SEED = 90227
"""Of a third draw, fixed before any of its cases was run: those of the first two (90210, 90217) had shown what was
missing."""
_MODELS: tuple[Params, ...] = ({}, {}, BIASED, NORMALIZED, MIXED, MIXED, _LATENT, _LATENT)
_SCHEDULES = (
    "1F1B",
    "1F1B",
    "GPipe",
    "Interleaved1F1B",
    "LoopedBFS",
    "InterleavedZeroBubble",
    "ZBVZeroBubble",
    "DualPipeV",
)


def drawn(count: int = 10) -> Iterator[Case]:
    """Legal cases over all options."""
    return steps.drawn(SEED, count, _draw, host.preflight_check)


def _draw(choose: random.Random, number: int) -> Case:
    model = choose.choice(_MODELS)
    experts = "num_experts" in model
    tensor, stages, context = (
        choose.choice([1, 1, 1, 2, 4]),
        choose.choice([1, 1, 1, 2, 4]),
        choose.choice([1, 1, 1, 2]),
    )
    shards, copies = choose.choice([1, 2, 4]), choose.choice([1, 1, 2])
    length, batch = choose.choice([128, 256, 512]), choose.choice([1, 2, 4])
    layers = stages * choose.choice([2, 3, 4])
    ranks = tensor * stages * context * shards * copies
    params: dict[str, Value] = {
        **model,
        "hidden_size": choose.choice([128, 256, 384]),
        "ffn_hidden_size": choose.choice([384, 768, 1024]),
        "num_layers": layers,
        "seq_length": length,
        "max_position_embeddings": length,
        "vocab_size": choose.choice([512, 2048, 8192]),
        "micro_batch_size": batch,
        "global_batch_size": batch
        * shards
        * copies
        * (choose.choice([2, 4, 8]) if stages > 1 else choose.choice([1, 2])),
        TP: tensor,
        PP: stages,
        CP: context,
        EP: choose.choice([1, 2]) if experts else 1,
        COPIES: copies,
        SEQUENCE_PARALLEL: choose.random() < 0.7,
        RESHARD: choose.choice(["default", "default", "always", "never"]),
        RECOMPUTE: choose.choice(["none", "none", "full", "selective"]),
        "bf16": choose.random() < 0.8,
        "untie_embeddings_and_output_weights": stages > 1 or choose.random() < 0.8,
        "model.fuse_qkv": choose.random() < 0.5,
    }
    if "multi_latent_attention" in model:
        params["moe_layer_freq"] = f"([0]*1+[1]*{layers - 1})"
        del params["model.fuse_qkv"]
    if stages > 1:
        params[SCHEDULE] = choose.choice(_SCHEDULES)
    if choose.random() < 0.4:
        params[LOSS] = "cross_entropy"
    return Case(
        name=f"drawn {number}", params=params, ranks=ranks, rank=choose.randrange(ranks), fused=choose.random() < 0.5
    )
