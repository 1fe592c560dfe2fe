"""More models and options whose memory is compared with that of TorchTitan's own steps."""

from __future__ import annotations

from primus_backend_torchtitan.host.shape.recomputed import FORCED
from tests.torchtitan.families import BIASED
from tests.torchtitan.truth.live_cases import LONG, ONCE, RECOMPUTE, Case, Params

_SELECTIVE: Params = {**ONCE, **LONG, RECOMPUTE: "selective"}

OPTIONS = (
    Case(name="biases, recomputed in part", params={**BIASED, **_SELECTIVE}, fused=True),
    Case(name="one product forced to run again", params={**_SELECTIVE, FORCED: ["feed_forward.w1"]}),
)
