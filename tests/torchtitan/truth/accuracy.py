"""Every preset that TorchTitan can build, whole, and four small models in every layout, against TorchTitan itself.

``python -m tests.torchtitan.truth.accuracy [NAME...]`` takes a quarter of an hour of one core for all, and writes a
JSON line for each model and layout: `model`, `layout`, number of `ranks`, names of `figures`, the sum of these as
`projected` and as `measured`, and `differences` of any of them on any of the ranks; or a `note` why there are none.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence

from primus_core.experiment import Value
from tests.torchtitan.truth.comparing import Case, shape_of
from tests.torchtitan.truth.expected import rank_of
from tests.torchtitan.truth.layouts import plans_of, refused
from tests.torchtitan.truth.models import SMALL, presets
from tests.torchtitan.truth.places import ranks_of
from tests.truth.comparing import chosen, row_of, unbuilt
from tests.truth.layouts import spread


def cases_of(names: Sequence[str]) -> Iterator[tuple[str, Case | str]]:
    """The models of these names, or all, with what to look at, or with why TorchTitan cannot build them here."""
    for name, params, large in chosen(SMALL, presets(), names):
        yield from (_whole if large else _small)(name, params)


def _small(name: str, params: Mapping[str, Value]) -> Iterator[tuple[str, Case]]:
    for layout, plan in plans_of(params):
        shape = shape_of(plan)
        yield name, Case(name=layout.name, plan=plan, shape=shape, ranks=tuple(ranks_of(shape)), works=True)


def _whole(name: str, params: Mapping[str, Value]) -> Iterator[tuple[str, Case | str]]:
    """The last, the first or one rank between, in turn; in one layout also with the optimizer and FSDP at work."""
    legal = spread(list(plans_of(params)))
    if not legal:
        yield name, refused(params)
    for number, (layout, plan) in enumerate(legal):
        shape = shape_of(plan)
        ranks = ranks_of(shape)
        looked = (ranks[-1], ranks[0], ranks[len(ranks) // 2])[number % 3]
        yield name, Case(name=layout.name, plan=plan, shape=shape, ranks=(looked,), works=number == 1)


def main(names: Sequence[str]) -> None:
    """Compare, and write the rows."""
    import torch

    from primus_core.patching import apply_patches
    from tests.forked.context import Rank
    from tests.torchtitan.experiments import MOCK, plan_of
    from tests.torchtitan.ranks import with_all_patches

    torch.set_num_threads(1)
    apply_patches(with_all_patches(plan_of(MOCK)), Rank(0, 1, None))
    from tests.torchtitan.truth.building import measured

    logging.disable(logging.WARNING)
    gc.freeze()
    for model, case in cases_of(names):
        row = unbuilt(model, case) if isinstance(case, str) else row_of(model, case, measured(case.asked()), rank_of)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
