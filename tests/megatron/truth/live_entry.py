"""What a forked rank runs: Megatron's own steps, each case in a process of its own, for Megatron has global state."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Mapping
from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def measure(plan: RunPlan, rank: RankContext) -> list[dict[str, Any]]:
    """By case what `tests.megatron.truth.live_step.measured` found, or an ``error``."""
    import torch._dynamo  # noqa: F401  # once for all cases

    return [_apart(case) for case in rank.prepared("live")["cases"]]


def _apart(case: Mapping[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as answer:
            json.dump(_answer(case), answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found: dict[str, Any] = json.load(answer)
    os.waitpid(child, 0)
    return found


def _answer(case: Mapping[str, Any]) -> dict[str, Any]:
    from tests.megatron.truth.live_step import measured

    try:
        return measured(case)
    except Exception as error:  # noqa: BLE001  # told to the test, whatever it is
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
