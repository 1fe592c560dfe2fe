"""More models and options whose memory is compared with that of TorchTitan's own steps."""

from __future__ import annotations

from primus_backend_torchtitan.host.shape.recomputed import FORCED
from tests.torchtitan.families import BIASED
from tests.torchtitan.truth.layouts import COPIES, EP, SCHEDULE
from tests.torchtitan.truth.live_cases import (
    LARGE,
    LONG,
    MIXED,
    ONCE,
    RECOMPUTE,
    RESHARD,
    STAGED,
    TIED,
    WHOLE,
    Case,
    Params,
)

_SELECTIVE: Params = {**ONCE, **LONG, RECOMPUTE: "selective"}
_NARROW: Params = {"training.dtype": "bfloat16"}
_WIDE: Params = {**LARGE, **WHOLE, "vocab_size": 512, "num_layers": 6, "ffn_hidden_size": 4096}

OPTIONS = (
    Case(name="biases, recomputed in part", params={**BIASED, **_SELECTIVE}, fused=True),
    Case(name="one product forced to run again", params={**_SELECTIVE, FORCED: ["feed_forward.w1"]}),
    Case(name="tied, resharded at once, loss at once", params={**TIED, **WHOLE, RESHARD: "always"}),
    Case(name="bf16 weights", params={**LARGE, **_NARROW}),
    Case(name="bf16 weights on two shards", params={**LARGE, **_NARROW, "global_batch_size": 4}, ranks=2),
    Case(name="bf16 weights with experts", params={**MIXED, **ONCE, **LONG, **_NARROW}, fused=True),
    Case(
        name="bf16 weights of a stage",
        params={**STAGED, **_NARROW, "vocab_size": 8192, SCHEDULE: "1F1B"},
        ranks=4,
        rank=3,
    ),
    Case(name="bf16 weights in two copies", params={**LARGE, **_NARROW, "global_batch_size": 4, COPIES: 2}, ranks=2),
    Case(
        name="bf16 weights on two shards, two copies",
        params={**_WIDE, **_NARROW, "global_batch_size": 8, COPIES: 2},
        ranks=4,
    ),
    Case(name="two shards, two copies, two passes", params={**_WIDE, "global_batch_size": 16, COPIES: 2}, ranks=4),
    Case(
        name="experts of two ranks, two copies, two passes",
        params={**MIXED, **LONG, "global_batch_size": 16, EP: 2, COPIES: 2},
        ranks=4,
        fused=True,
    ),
)
"""Beside those of `live_cases`."""
