"""Every preset that Megatron can build, whole, and small models in every layout, against Megatron itself.

``python -m tests.megatron.truth.accuracy [NAME...]`` writes a JSON line for each model and layout:
``{"model", "layout", "ranks", "figures", "projected", "measured", "differences"}``, or with a ``note`` why there is
nothing to compare. All take some 20 minutes of one core, up to DeepSeek-V3 on 2,048 ranks and 4 trillion parameters.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence

from primus_core.experiment import Value
from primus_core.projection.places import held
from primus_core.shape import ModelShape
from tests.megatron.truth.comparing import Case, shape_of
from tests.megatron.truth.expected import rank_of
from tests.megatron.truth.layouts import plans_of, refused
from tests.megatron.truth.models import LISTED, SMALL, presets
from tests.megatron.truth.places import ranks_of
from tests.truth.comparing import chosen, row_of, unbuilt
from tests.truth.layouts import Legal, spread

_MANY = 32_000
"""Tensors: the whole of DeepSeek-V3 has fewer."""
_LEAST = 6
"""Layouts of a preset."""


def cases_of(names: Sequence[str]) -> Iterator[tuple[str, Case | str]]:
    """The models of these names, or all, with what to look at, or with why Megatron cannot build them here."""
    for name, params, large in chosen({**SMALL, **LISTED}, presets(), names):
        yield from (_whole if large else _small)(name, params)


def _small(name: str, params: Mapping[str, Value]) -> Iterator[tuple[str, Case]]:
    for layout, plan in plans_of(params):
        shape = shape_of(plan)
        yield name, Case(name=layout.name, plan=plan, shape=shape, ranks=tuple(ranks_of(shape)))


def _whole(name: str, params: Mapping[str, Value]) -> Iterator[tuple[str, Case | str]]:
    """One rank of the first, of a middle and of the last stage."""
    legal = spread(_quick(list(plans_of(params))))
    if not legal:
        yield name, refused(params)
    for layout, plan in legal:
        shape = shape_of(plan)
        ranks = ranks_of(shape)
        looked = tuple(sorted({ranks[0], ranks[len(ranks) // 2], ranks[-1]} if layout.staged else {ranks[-1]}))
        yield name, Case(name=layout.name, plan=plan, shape=shape, ranks=looked)


def _quick(legal: Legal) -> Legal:
    """Without layouts in which one rank holds more experts than are built in half a minute, if enough remain."""
    quick = [(layout, plan) for layout, plan in legal if _tensors(shape_of(plan)) <= _MANY]
    return quick if len(quick) >= _LEAST else legal


def _tensors(shape: ModelShape) -> int:
    """Parameters that the rank with the most of them holds, each counted once."""
    stages = range(shape.group("pipeline"))
    return max(sum(run.count * len(shape.blocks[run.block].parameters) for run in held(shape, at)) for at in stages)


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
    gc.freeze()
    for model, case in cases_of(names):
        row = unbuilt(model, case) if isinstance(case, str) else row_of(model, case, measured(case.asked()), rank_of)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
