"""What portable parameters mean to Megatron: the same as to every back end, or what is its own habit."""

from __future__ import annotations

import pytest

from primus_backend_megatron import host
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Accelerator
from tests.megatron.experiments import MOCK, plan_of, translate

MASKED: dict[str, Value] = {**MOCK, "eod_mask_loss": True}


def test_tokens_count_alike_where_some_are_masked() -> None:
    """Megatron would weigh micro batches alike whatever they hold; the row says why it does not."""
    translation = translate(MASKED)
    assert translation.native["calculate_per_token_loss"] is True
    (row,) = [row for row in translation.adjusted if row.native == "calculate_per_token_loss"]
    assert "each token of the global batch counts alike" in row.why


def test_nothing_changes_where_no_token_is_masked() -> None:
    """Micro batches of equal numbers of tokens give the same mean either way."""
    assert "calculate_per_token_loss" not in translate(MOCK).native


@pytest.mark.parametrize("asked", [{"semantics": "native"}, {"calculate_per_token_loss": False}])
def test_megatrons_habit_is_kept_where_that_is_asked_for(asked: dict[str, Value]) -> None:
    """By `semantics: native`, or by the parameter itself."""
    assert translate({**MASKED, **asked}).native.get("calculate_per_token_loss", False) is False


def test_what_excludes_counting_tokens_is_switched_off() -> None:
    """Megatron refuses averages of averages together with it."""
    translation = translate({**MASKED, "ddp_average_in_collective": True})
    assert translation.native["ddp_average_in_collective"] is False
    assert "ddp_average_in_collective" in {row.path for row in translation.adjusted}


def found(accelerator: Accelerator, **params: Value) -> list[Finding]:
    plan = plan_of({**MOCK, "reset_attention_mask": True, **params}, accelerator=accelerator)
    return [finding for finding in host.preflight_check(plan, Where.SUBMIT) if finding.check == "megatron.documents"]


def test_masks_that_would_be_ignored_are_refused() -> None:
    """Kernels on a GPU read none, and training would go on without; where they are read nothing is said."""
    (finding,) = found("cuda")
    assert (finding.severity, finding.cause) == ("error", "configuration")
    assert "reset_attention_mask does nothing with Transformer Engine" in finding.summary
    assert "reset_attention_mask: true (exp.yaml:" in finding.evidence
    (finding,) = found("cuda", transformer_impl="local")
    assert "the fused softmax" in finding.summary
    assert not found("cuda", transformer_impl="local", masked_softmax_fusion=False)
    assert not found("cpu")


def test_masks_that_are_ignored_by_habit_are_a_warning() -> None:
    """`semantics: native` is what Megatron does, which is told."""
    (finding,) = found("cuda", semantics="native")
    assert finding.severity == "warning"


def test_a_meaning_that_nobody_has_is_refused() -> None:
    """The choice is between two."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, "semantics": "alinged"})
    assert "`semantics` cannot be" in caught.value.what
