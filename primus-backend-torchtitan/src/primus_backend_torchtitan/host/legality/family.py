"""What the builder of the model's family can make."""

from __future__ import annotations

import json
from collections.abc import Iterator

from primus_backend_torchtitan.families import family_of
from primus_backend_torchtitan.host.case import Case
from primus_core.outcome import Finding


def check_family(case: Case) -> Iterator[Finding]:
    """One finding for each parameter that the family's builder cannot honour."""
    for name, (plain, words) in family_of(case.model).accepts.items():
        native = f"model.{name}"
        if case.values[native] not in plain:
            yield case.error(
                "model",
                f"this back end cannot build a model with {name}: {json.dumps(case.values[native])} yet",
                (native,),
                f"train it with `framework: megatron`, or choose a model with {words}",
                cause="dependency",
            )
