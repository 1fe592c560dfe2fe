"""The trainer, in each rank: least squares by gradient descent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import hypot
from random import Random
from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Fit the line that the plan's translation describes; returns what becomes of it, for the report."""
    asked: Mapping[str, Any] = plan.translation.native if plan.translation else {}
    random = Random(asked["seed"] + rank.rank)
    slope = intercept = loss = 0.0
    for iteration in range(1, asked["train_iters"] + 1):
        begun = time.perf_counter()
        xs = [random.uniform(-1, 1) for _ in range(asked["micro_batch_size"])]
        ys = [asked["slope"] * x + asked["intercept"] + random.gauss(0, asked["noise"]) for x in xs]
        errors = [slope * x + intercept - y for x, y in zip(xs, ys, strict=True)]
        loss = sum(error * error for error in errors) / len(xs)
        gradient = [2 * sum(e * x for e, x in zip(errors, xs, strict=True)) / len(xs), 2 * sum(errors) / len(xs)]
        slope -= asked["lr"] * gradient[0]
        intercept -= asked["lr"] * gradient[1]
        rank.metrics(
            {
                "iteration": iteration,
                "train_iters": asked["train_iters"],
                "loss": loss,
                "lr": asked["lr"],
                "grad_norm": hypot(*gradient),
                "step_seconds": time.perf_counter() - begun,
            }
        )
    rank.log("info", "fitted", slope=slope, intercept=intercept)
    return {"iteration": asked["train_iters"], "loss": loss, "slope": slope, "intercept": intercept}
