"""What `make accuracy` compares weights of: every preset, in at least six layouts, or a reason why not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest

from tests.megatron.truth import accuracy as megatron
from tests.megatron.truth.models import LISTED
from tests.megatron.truth.models import presets as of_megatron
from tests.torchtitan.truth import accuracy as torchtitan
from tests.torchtitan.truth.models import presets as of_torchtitan
from tests.truth.comparing import Case, unbuilt
from tools.accuracy.groups import EXACT
from tools.accuracy.rows import row_of

Cases = Callable[[Sequence[str]], Iterable[tuple[str, Case | str]]]


@pytest.mark.parametrize(
    ("cases_of", "presets", "largest"),
    [
        (megatron.cases_of, of_megatron, "deepseek_v3"),
        (torchtitan.cases_of, of_torchtitan, "deepseek_v3_671b"),
    ],
    ids=["Megatron", "TorchTitan"],
)
def test_every_preset_is_compared_or_says_why_not(
    cases_of: Cases, presets: Callable[[], Iterable[tuple[str, object]]], largest: str
) -> None:
    """Up to DeepSeek-V3 on 2,048 ranks. What lists its stages has fewer layouts."""
    found: dict[str, list[Case]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for name, case in cases_of([]):
        if isinstance(case, str):
            reasons[name] = case
        else:
            found[name].append(case)
    assert {name for name, _ in presets()} <= {*found, *reasons}
    assert len(found) >= 40
    assert not {*found} & {*reasons}
    assert min(len(found[name]) for name in found if name not in LISTED) >= 6
    assert all(reason and "exp.yaml" not in reason for reason in reasons.values())
    assert max(case.plan.target.world_size for case in found[largest]) == 2048


def test_a_preset_that_cannot_be_built_is_excused_by_its_reason_alone() -> None:
    """The row has no figures, of which nothing could be said."""
    assert not row_of(unbuilt("grok2", "softly capped logits")).is_off(EXACT)
    assert row_of(unbuilt("grok2", "")).is_off(EXACT)
