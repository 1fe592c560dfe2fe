"""What ranks run in place of a training, for the tests that ask for one part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def read(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """The inputs of the first micro batches of this rank, the labels, and what follows after a resume at half of it."""
    with _session(plan, rank):
        loader = _loader(plan, rank)
        stream = iter(loader)
        batches = [next(stream) for _ in range(4)]
        state = loader.state_dict()
        again = _loader(plan, rank)
        again.load_state_dict({"consumed_samples": state["consumed_samples"] // 2})
        following = next(iter(again))
        return {
            "inputs": [inputs["input"].tolist() for inputs, _ in batches],
            "positions": [inputs["positions"].tolist() for inputs, _ in batches],
            "labels": [labels.tolist() for _, labels in batches],
            "state": state,
            "resumed": following[0]["input"].tolist(),
        }


@contextmanager
def _session(plan: RunPlan, rank: RankContext) -> Iterator[None]:
    from primus_backend_torchtitan.host.schema import schema_for
    from primus_backend_torchtitan.rank.samples import document_end, make_samples
    from primus_backend_torchtitan.rank.session import CURRENT, Session

    assert plan.translation
    session = Session(plan=plan, rank=rank, native=plan.translation.native)
    session.samples = make_samples(session, schema_for(plan.target.library_version).defaults)
    session.document_end = document_end(session)
    token = CURRENT.set(session)
    try:
        yield
    finally:
        CURRENT.reset(token)


def _loader(plan: RunPlan, rank: RankContext) -> Any:
    from primus_backend_torchtitan.rank.config import build_config

    assert plan.translation
    config = build_config(plan.translation.native, plan.target.library_version).dataloader
    options = {"seq_len": 32, "local_batch_size": 2, "tokenizer": None}
    return config.build(dp_world_size=rank.world_size, dp_rank=rank.rank, **options)


def count(plan: RunPlan, rank: RankContext) -> dict[str, int]:
    """Weights of the models that were prepared, by name: portable parameters, with as many rows as tokens."""
    import torch

    from primus_backend_torchtitan.architecture import DEFAULTS
    from primus_backend_torchtitan.families import family_of
    from primus_backend_torchtitan.rank.config import find

    counts = {}
    for name, params in rank.prepared("models").items():
        model = {**DEFAULTS, **params, "padded_vocab_size": params["vocab_size"]}
        with torch.device("meta"):
            built = find(family_of(model).builder)(model).model.build()
        counts[name] = sum(parameter.numel() for parameter in built.parameters())
    return counts
