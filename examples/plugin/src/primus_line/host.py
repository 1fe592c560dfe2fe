"""The back end `line` on the host: checks the parameters and says what the ranks will run."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from primus_core.contract import host
from primus_core.errors import raise_all
from primus_core.experiment import Module
from primus_core.parameters import check, load_schema
from primus_core.plan import Layout, Mapped, Translation
from primus_core.planning.settings import core_schema

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
