"""Which layers have experts: a pattern of which Megatron would fail is refused, others mean what Megatron reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.experiment import Value
from primus_core.parameters.layerpattern import layers_with_experts
from tests.megatron.experiments import MOCK, findings
from tests.megatron.ranks import Ranks, all_patches, make_plan

MOE: dict[str, Value] = {"num_experts": 8, "moe_router_topk": 2}
READ = ("([0]+[1])*2", "([0]*1+[1]*3)", "[0,1]*2", "[0]+[1]+([0]+[1])", "2*[0]+2*[1]")
"""Patterns of four layers."""
NOT_READ = ("[0] + [1]*3", "[0]*", "[a]", "alternate", "[0]-[1]")


@pytest.mark.parametrize(
    ("frequency", "told"),
    [
        ("[0]+[1]", "it describes 2 layers, and the model has 4"),
        ([0, 1, 1], "it describes 3 layers, and the model has 4"),
        ([0, 1, 1, 2], "neither a number of layers nor a list of 0 and 1"),
        ("[0]*", "cannot be read"),
        *((text, "Megatron reads digits") for text in NOT_READ if text != "[0]*"),
    ],
)
def test_a_wrong_pattern_is_refused(frequency: Value, told: str) -> None:
    """One finding, with cause, place and remedy."""
    (finding,) = findings({**MOCK, **MOE, "moe_layer_freq": frequency})
    assert (finding.check, finding.severity, finding.cause) == ("megatron.experts", "error", "configuration")
    assert finding.summary.startswith("moe_layer_freq: ")
    assert told in finding.summary
    assert "num_layers: 4 (exp.yaml:" in finding.evidence
    assert "([0]*3+[1]*58)" in finding.remedy


@pytest.mark.parametrize("frequency", [1, 3, "2", " 2 ", [1, 0, 1, 0], *READ])
def test_a_pattern_that_megatron_reads_passes(frequency: Value) -> None:
    """Numbers, lists and sums of lists."""
    assert findings({**MOCK, **MOE, "moe_layer_freq": frequency}) == []


def test_a_model_without_experts_needs_no_pattern() -> None:
    """What says nothing is not judged."""
    assert findings({**MOCK, "moe_layer_freq": "[0]"}) == []


def test_megatron_reads_the_same(ranks: Ranks, tmp_path: Path) -> None:
    """Its own parser makes the same list of each text, and none of those that are refused."""
    plan = make_plan(folder=tmp_path, world=1, patches=all_patches())
    prepared = {"truth": {"texts": [*READ, *NOT_READ]}}
    found = ranks.start(plan, tmp_path, entry="tests.megatron.probes:layers", prepared=prepared).check().result()
    assert found == [*([int(one) for one in layers_with_experts(text, 4)] for text in READ), *(None for _ in NOT_READ)]
