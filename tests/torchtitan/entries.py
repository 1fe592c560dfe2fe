"""What ranks run in place of a training, for the tests that ask for one part of it."""

from __future__ import annotations

from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def read(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """The inputs of the first micro batches of this rank, and the labels."""
    from primus_backend_torchtitan.host.schema import schema_for
    from primus_backend_torchtitan.rank.samples import make_samples
    from primus_backend_torchtitan.rank.session import CURRENT, Session
    from primus_backend_torchtitan.rank.tokens import TokenLoader

    assert plan.translation
    session = Session(plan=plan, rank=rank, native=plan.translation.native)
    session.samples = make_samples(session, schema_for(plan.target.library_version).defaults)
    token = CURRENT.set(session)
    try:
        config = TokenLoader.Config(documents=bool(session.native.get("dataloader.documents")))
        options = {"seq_len": 32, "local_batch_size": 2, "tokenizer": None}
        loader = config.build(dp_world_size=rank.world_size, dp_rank=rank.rank, **options)
        batches = [next(stream) for stream in [iter(loader)] for _ in range(4)]
        return {
            "inputs": [inputs["input"].tolist() for inputs, _ in batches],
            "positions": [inputs["positions"].tolist() for inputs, _ in batches],
            "labels": [labels.tolist() for _, labels in batches],
            "state": loader.state_dict(),
        }
    finally:
        CURRENT.reset(token)
