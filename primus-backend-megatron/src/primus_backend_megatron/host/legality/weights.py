"""Whether the model is of a kind whose weights can be read from a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding

if TYPE_CHECKING:
    from primus_core.weights.folder import Case as WeightsCase


def check_weights(case: Case) -> Iterator[Finding]:
    """A finding where `load_hf` is set for another model than a dense Llama or Qwen."""
    folder = case.values["load_hf"]
    if isinstance(folder, str) and folder:
        from primus_core.weights.folder import check_kind  # here: few runs start from such a folder

        yield from check_kind(weights_of(case, folder))


def weights_of(case: Case, folder: str) -> WeightsCase:
    """The case of a Hugging Face folder."""
    from primus_core.weights.folder import Case as WeightsCase

    return WeightsCase(framework="megatron", module=case.module, folder=folder, values=case.values)
