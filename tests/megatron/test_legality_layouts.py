"""Layouts that list every layer's stage are held against what Megatron asserts of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_core.experiment import Value
from tests.megatron.experiments import MOCK, findings, plan_of

LAYOUT, STAGES, NEXT = "pipeline_model_parallel_layout", "pipeline_model_parallel_size", "mtp_num_layers"
MORE: dict[str, Value] = {NEXT: 1, "position_embedding_type": "rope"}

ILLEGAL: dict[str, tuple[str, int, dict[str, Value], str]] = {
    "a letter that is no layer": ("Ettx|ttL", 2, {}, "'x', which is no layer"),
    "chunks that stages do not divide": ("Et|tt|tL", 2, {}, "3 chunks of"),
    "no loss": ("Ett|tt", 2, {}, "write E first and L last"),
    "an embedding in the middle": ("t|EtttL", 2, {}, "write E first and L last"),
    "too few layers": ("Et|ttL", 2, {}, "write t 4 times, or set num_layers to 3"),
    "no further tokens asked for": ("Ett|ttmL", 2, {}, "has 1 m, and mtp_num_layers is 0"),
    "further tokens without a place": ("Ett|ttL", 2, MORE, "has 0 m, and mtp_num_layers is 1"),
    "further tokens before a layer": ("Ettm|ttL", 2, MORE, "write all m after the last t"),
    "further tokens in two chunks": ("Et*4|m|m|L", 4, {**MORE, NEXT: 2}, "in several chunks"),
    "further tokens in an early chunk": (
        "Et|tt|tm|||L",
        3,
        {**MORE, "global_batch_size": 18},
        "in one of the last 3 chunks",
    ),
    "stages of a number of layers too": ("Ett|ttL", 2, {"decoder_last_pipeline_num_layers": 2}, "are both set"),
    "virtual stages of one stage": ("Ett|ttL", 1, {}, "virtual pipeline stages need 2 or more"),
}
LEGAL: dict[str, tuple[str, int, dict[str, Value]]] = {
    "groups": ("E,(t|)*3,tL", 4, {}),
    "virtual stages": ("Et|t|t|tL", 2, {}),
    "further tokens alone": ("Ett|tt|m|L", 4, MORE),
    "several further tokens": ("Et*2|t*2m*2L", 2, {**MORE, NEXT: 2}),
}


def _params(layout: str, stages: int, more: dict[str, Value]) -> dict[str, Value]:
    return {**MOCK, "global_batch_size": 16, STAGES: stages, LAYOUT: layout, **more}


@pytest.mark.parametrize("case", ILLEGAL)
def test_illegal(case: str) -> None:
    """One finding, which shows the layout and what to write instead."""
    layout, stages, more, told = ILLEGAL[case]
    (finding,) = findings(_params(layout, stages, more), ranks=stages)
    assert finding.severity == "error"
    assert told in f"{finding.summary}\n{finding.remedy}"
    if finding.check == "megatron.pipeline-layout":
        assert f'{LAYOUT}: "{layout}" (exp.yaml:' in finding.evidence


@pytest.mark.parametrize("case", LEGAL)
def test_legal(case: str) -> None:
    """What Megatron can divide is not complained about."""
    layout, stages, more = LEGAL[case]
    assert findings(_params(layout, stages, more), ranks=stages) == []


@pytest.mark.skipif(not find_spec("megatron") or not find_spec("torch"), reason="Megatron or torch is not installed")
def test_megatron_agrees() -> None:
    """Megatron refuses the same layouts, and no others."""
    cases = [*LEGAL.values(), *(case[:3] for case in ILLEGAL.values())]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("judge.py"))],
        input="\n".join(_for_megatron(_params(*case), case[1]) for case in cases),
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    refusals = dict(zip([*LEGAL, *ILLEGAL], json.loads(done.stdout), strict=True))
    assert [name for name, why in refusals.items() if why] == list(ILLEGAL)


def _for_megatron(params: dict[str, Value], ranks: int) -> str:
    translation = plan_of(params, ranks=ranks).translation
    assert translation is not None
    return json.dumps({"native": translation.native, "ranks": ranks})
