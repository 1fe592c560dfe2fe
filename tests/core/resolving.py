"""Experiments of a few lines, for the tests of reading and typing them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_core.errors import ErrorGroup, PrimusError
from primus_core.experiment import Experiment
from primus_core.resolve import resolve

HEAD = "work_group: team\nuser_name: me\nexp_name: first\nworkspace: out\n"
MODULE = "modules:\n  pre_trainer:\n    framework: megatron\n    config: trainer.yaml\n    model: tiny.yaml\n"
OVERRIDES = f"{HEAD}{MODULE}    overrides:\n"
"""Parameters follow, indented by six blanks; the first is on line 11."""
PRESETS = {"trainer": "lr: 1\nrope: {base: 2, scale: 3}\n", "tiny": "hidden_size: 128\n"}


def resolved(folder: Path, exp: str, *overrides: str, env: Mapping[str, str] | None = None, **files: str) -> Experiment:
    """What ``exp.yaml`` with this text resolves to, beside files of these names and texts."""
    for name, text in {**PRESETS, "exp": exp, **files}.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return resolve("exp.yaml", overrides=overrides, env=env or {}, preset_dirs=lambda framework: [], cwd=str(folder))


def values(experiment: Experiment) -> dict[str, object]:
    """Parameters of the module by dotted name."""
    return {key: leaf.value for key, leaf in experiment.modules["pre_trainer"].params.items()}


def refused(
    folder: Path, exp: str, *overrides: str, env: Mapping[str, str] | None = None, **files: str
) -> list[PrimusError]:
    """The problems of ``exp.yaml``, each with something to do about it."""
    with pytest.raises(PrimusError) as raised:
        resolved(folder, exp, *overrides, env=env, **files)
    errors = list(raised.value.errors) if isinstance(raised.value, ErrorGroup) else [raised.value]
    assert all(error.remedy for error in errors)
    return errors
