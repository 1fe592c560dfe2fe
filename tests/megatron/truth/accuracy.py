"""Every preset that Megatron can build, whole, and three small models in every layout, against Megatron itself.

``python -m tests.megatron.truth.accuracy [NAME...]`` writes a JSON line for each model and layout:
``{"model", "layout", "ranks", "figures", "projected", "measured", "differences"}``, or with a ``note`` why there is
nothing to compare.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from primus_core.experiment import Value
from tests.megatron.truth.comparing import Case, shape_of
from tests.megatron.truth.expected import rank_of
from tests.megatron.truth.layouts import plans_of
from tests.megatron.truth.models import SMALL, presets
from tests.megatron.truth.places import ranks_of
from tests.truth.comparing import chosen, row_of
from tests.truth.layouts import spread


def cases_of(names: Sequence[str]) -> Iterator[tuple[str, Case | None]]:
    """The models of these names, or all, with what to look at; None for a model that Megatron cannot build here."""
    for name, params, large in chosen(SMALL, presets(), names):
        yield from (_whole if large else _small)(name, params)


def _small(name: str, params: Mapping[str, Value]) -> Iterator[tuple[str, Case]]:
    for layout, plan in plans_of(params):
        shape = shape_of(plan)
        yield name, Case(name=layout.name, plan=plan, shape=shape, ranks=tuple(ranks_of(shape)))


def _whole(name: str, params: Mapping[str, Value]) -> Iterator[tuple[str, Case | None]]:
    """One rank of the first, of a middle and of the last stage."""
    legal = spread(list(plans_of(params)))
    if not legal:
        yield name, None
    for layout, plan in legal:
        shape = shape_of(plan)
        ranks = ranks_of(shape)
        looked = tuple(sorted({ranks[0], ranks[len(ranks) // 2], ranks[-1]} if layout.staged else {ranks[-1]}))
        yield name, Case(name=layout.name, plan=plan, shape=shape, ranks=looked)


def main(names: Sequence[str]) -> None:
    """Compare, and write the rows."""
    import torch

    from primus_core.patching import apply_patches
    from tests.forked.context import Rank
    from tests.megatron.ranks import all_patches, make_plan

    torch.set_num_threads(1)
    apply_patches(make_plan(patches=all_patches()), Rank(0, 1, None))
    from tests.megatron.truth.building import measured

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for model, case in cases_of(names):
        row = row_of(model, case, measured(case.asked()), rank_of) if case else _none(model)
        print(json.dumps(row), flush=True)


def _none(model: str) -> dict[str, Any]:
    note = "Megatron cannot build it without packages that are for GPUs only"
    return {"model": model, "layout": "", "projected": 0, "measured": 0, "note": note}


if __name__ == "__main__":
    main(sys.argv[1:])
