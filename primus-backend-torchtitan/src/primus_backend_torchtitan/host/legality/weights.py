"""Whether the model is of a kind whose weights can be read from a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import Case
from primus_core.outcome import Finding
from primus_core.weights.folder import Case as WeightsCase
from primus_core.weights.folder import check_kind


def check_weights(case: Case) -> Iterator[Finding]:
    """A finding where `load_hf` is set for another model than a dense Llama or Qwen."""
    folder = case.values["checkpoint.load_hf"]
    if isinstance(folder, str) and folder:
        yield from check_kind(weights_of(case, folder))


def weights_of(case: Case, folder: str) -> WeightsCase:
    """The case of a Hugging Face folder."""
    name = case.name("checkpoint.load_hf")
    return WeightsCase(framework="torchtitan", module=case.module, folder=folder, values=case.model, parameter=name)
