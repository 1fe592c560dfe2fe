"""What projection says a training step needs is what TorchTitan's own step needs, tensor by tensor."""

from __future__ import annotations

from tests.torchtitan.truth.live_cases import drawn


def test_the_draw() -> None:
    """Ten legal configurations, the same each time."""
    assert [case.params for case in drawn()] == [case.params for case in drawn()]
    assert len(list(drawn())) == 10
