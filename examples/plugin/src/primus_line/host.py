"""The back end `line` on the host: checks the parameters and says what the ranks will run."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from primus_core.contract import host
from primus_core.errors import raise_all
from primus_core.experiment import Module
from primus_core.parameters import check, load_schema
from primus_core.plan import Layout, Mapped, RunPlan, Translation
from primus_core.planning.settings import core_schema
from primus_core.shape import Activation, Block, ModelShape, Operator, Parameter, Run, Schedule, Sharding

CONTRACT = 1
LIBRARY = "primus-line"


@host
def translate_config(module: Module) -> Translation:
    """Give the trainer what was set; its own names are the experiment's, so every row is a plain one."""
    schema = load_schema((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))
    values, errors = check(module.params, schema, also=core_schema().parameters)
    raise_all(errors)
    native = {**schema.defaults, **values}
    return Translation(
        native=native,
        entry="primus_line.trainer:run",
        layout=Layout(micro_batch_size=cast(int, native["micro_batch_size"])),
        mapping=tuple(Mapped(path=name, native=name, value=values[name]) for name in values),
    )


@host
def model_shape(plan: RunPlan) -> ModelShape:
    """Two numbers of 8 bytes, whole on each rank, and in a step an error for each point."""
    points = cast(int, plan.translation.native["micro_batch_size"]) if plan.translation else 1
    weights = tuple(Parameter(name=name, shape=(1,), dtype="fp64") for name in ("slope", "intercept"))
    errors = Operator(
        name="errors",
        component="line",
        reads=("input",),
        makes=(Activation(name="errors", bytes=8 * points),),
        keeps=("input", "errors"),
        weights=("slope", "intercept"),
        flops=3 * points,
    )
    return ModelShape(
        groups={"data": plan.target.world_size},
        blocks={"line": Block(parameters=weights, operators=(errors,))},
        stages=(((Run(block="line"),),),),
        sharding=Sharding(scheme="replicated", gradient="fp64", main=None, moments=()),
        schedule=Schedule(name="none", micro_batches=1, boundary=8 * points),
        tokens=points,
        samples=points * plan.target.world_size,
        sequence=1,
    )
