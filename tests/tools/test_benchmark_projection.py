"""`benchmarks/projection.py` takes the least of what the command costs, of runs that were none but whole ones."""

from __future__ import annotations

import pytest

from benchmarks import projection


def costing(monkeypatch: pytest.MonkeyPatch, spent: list[float | None]) -> None:
    """The command costs this, call by call, the first of which compiles; there is one model."""
    calls = iter([1.0, *spent])
    monkeypatch.setattr(projection, "command", lambda _: next(calls))
    monkeypatch.setattr(projection, "experiments", lambda folder: iter([folder / "model.yaml"]))


def test_the_dearest_is_the_least_of_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time, which finds the dearest, is not one of them."""
    costing(monkeypatch, [0.1, 0.5, 0.3, 0.4])
    assert projection.dearest(3) == 0.3


def test_a_command_that_is_refused_when_repeated_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no command of 0 s: the benchmark fails and names the model."""
    costing(monkeypatch, [0.1, 0.5, None, 0.4])
    with pytest.raises(SystemExit, match=r"model.yaml: the command is refused"):
        projection.dearest(3)
