"""What the builder of the model's family can make."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from primus_backend_torchtitan.families import family_of
from primus_backend_torchtitan.host.case import Case
from primus_core.outcome import Finding


def check_family(case: Case) -> Iterator[Finding]:
    """One finding for all the parameters that the family's builder cannot honour."""
    wrong = {
        f"model.{name}": words
        for name, (plain, words) in family_of(case.model).accepts.items()
        if case.values[f"model.{name}"] not in plain
    }
    if len(wrong) == 1:
        ((native, words),) = wrong.items()
        asked = f"{native[6:]}: {json.dumps(case.values[native])}"
        yield _unbuildable(case, f"a model with {asked} yet", wrong, f"a model with {words}")
    elif wrong:
        asked = f"{len(wrong)} parameters ask for what it does not have"
        yield _unbuildable(case, f"{case.module.model} yet: {asked}", wrong, "another model")


def _unbuildable(case: Case, what: str, natives: Iterable[str], other: str) -> Finding:
    return case.error(
        "model",
        f"this back end cannot build {what}",
        natives,
        f"train it with `framework: megatron`, or choose {other}",
        cause="unsupported",
    )
