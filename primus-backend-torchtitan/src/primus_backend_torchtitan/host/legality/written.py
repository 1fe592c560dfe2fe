"""Stages of a pipeline that the user writes as names of modules: TorchTitan leaves out what no stage names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from primus_backend_torchtitan.host.case import PIPELINE, Case
from primus_backend_torchtitan.host.schedules import Schedule
from primus_core.outcome import Finding

MODULES = "parallelism.module_fqns_per_model_part"
_SCHEDULE = "parallelism.pipeline_parallel_schedule"


def check_written(case: Case, schedule: Schedule) -> Iterator[Finding]:
    """Every module once, and as many stages as the schedule has on the ranks."""
    written = case.values[MODULES]
    stages = [stage if isinstance(stage, list) else [] for stage in written] if isinstance(written, list) else []
    named = Counter(str(name) for stage in stages for name in stage)
    wanted = ["tok_embeddings", *(f"layers.{index}" for index in range(case.shape.layers)), "norm", "lm_head"]
    wrong = {
        "no stage has": [name for name in wanted if not named[name]],
        "several stages have": [name for name in wanted if named[name] > 1],
        "the model has no": [name for name in named if name not in wanted],
    }
    for words, names in wrong.items():
        if names:
            remedy = "name the embedding, every layer, the norm and the output once"
            yield case.error("stages", f"{words} {', '.join(names)}", (MODULES, "model.num_layers"), remedy)
    yield from _count(case, schedule, len(stages))


def _count(case: Case, schedule: Schedule, stages: int) -> Iterator[Finding]:
    ranks = case.size(PIPELINE)
    each, rest = divmod(stages, ranks)
    if rest or not schedule.has(each):
        needs = {"one": f"{ranks}", "two": f"{2 * ranks}", "several": f"a multiple of {ranks}, from {2 * ranks} on"}
        yield case.error(
            "stages",
            f"{stages} stages do not suit {schedule.name} on {ranks} ranks",
            (MODULES, PIPELINE, _SCHEDULE),
            f"write {needs[schedule.stages]} stages",
        )
