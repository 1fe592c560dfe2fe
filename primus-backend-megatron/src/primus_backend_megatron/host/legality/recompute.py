"""What is computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding

_GRANULARITY, _MODULES, _METHOD = "recompute_granularity", "recompute_modules", "recompute_method"
_NEEDS = (
    ("moe_act", "moe_grouped_gemm", "grouped experts"),
    ("mla_up_proj", "multi_latent_attention", "latent attention"),
)
"""Parts that only some layers have, with what switches those on, and its name."""


def check_recompute(case: Case) -> Iterator[Finding]:
    """How layers are recomputed, and which parts of them."""
    if case.values[_GRANULARITY] == "selective":
        yield from _selective(case)
    if case.values[_GRANULARITY] == "full":
        yield from _full(case)


def _selective(case: Case) -> Iterator[Finding]:
    if case.values[_METHOD] is not None:
        keys = (_GRANULARITY, _METHOD)
        yield case.error("recompute", "selective recomputation has no method", keys, "set recompute_method: null")
    asked = case.values[_MODULES]
    for name, needed, what in _NEEDS:
        if isinstance(asked, list) and name in asked and not case.on(needed):
            yield case.error(
                "recompute",
                f"{name} is recomputed in {what} only",
                (_MODULES, needed),
                f"set {needed}: true, or take {name} out of {_MODULES}",
            )


def _full(case: Case) -> Iterator[Finding]:
    if case.values[_METHOD] is None or case.values["recompute_num_layers"] is None:
        yield case.error(
            "recompute",
            "full recomputation needs a method and a number of layers",
            (_GRANULARITY, _METHOD, "recompute_num_layers"),
            "set recompute_method: uniform and recompute_num_layers: 1",
        )
    if case.values[_METHOD] == "uniform" and case.values["recompute_num_layers"] == 0:
        keys = (_METHOD, "recompute_num_layers")
        yield case.error("recompute", "groups of 0 layers cannot be recomputed", keys, "set recompute_num_layers: 1")
