"""Two thousand mutated experiments, the same in every run; `benchmarks/fuzz_config.py` runs a hundred thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz_config import Case, fuzz, judge, surroundings


def test_mutated_inputs_give_an_experiment_or_an_error(tmp_path: Path) -> None:
    """No input gives a traceback, takes a second or 200 MB, or an experiment that its dump does not give again."""
    tally = fuzz(tmp_path, seed=4, numbers=range(2000))
    assert sum(tally.outcomes.values()) == 2000
    assert tally.outcomes["experiment"] > 150
    assert len(tally.outcomes) > 25


@pytest.mark.parametrize("name", ["fifo", "zero", "loop", "folder", "utf16", "binary", "bomb", "deep", "tall", "self"])
@pytest.mark.parametrize("key", ["extends", "model"])
def test_a_name_may_hit_anything(tmp_path: Path, key: str, name: str) -> None:
    """Pipes, devices, loops, folders, other encodings and bombs are errors wherever a file is named."""
    surroundings(tmp_path)
    model = name if key == "model" else "tiny"
    extends = f"extends: {name}.yaml\n" if key == "extends" else ""
    names = "work_group: a\nuser_name: b\nexp_name: c\nworkspace: d\n"
    module = f"modules: {{fit: {{framework: x, config: trainer.yaml, model: {model}.yaml}}}}\n"
    assert judge(tmp_path, Case(content=f"{extends}{names}{module}".encode())) != "experiment"
