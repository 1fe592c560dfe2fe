"""A preset that builds on the one that it hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.errors import ConfigError
from primus_core.resolve import resolve
from tests.core.resolving import HEAD, MODULE, values


def test_preset_extends_the_one_it_hides(tmp_path: Path) -> None:
    """A back end's preset extends core's of the same name, and so does a user's own extend both."""
    presets = {
        "trainer.yaml": "extends: trainer.yaml\nlr: 3\n",
        "strong/modules/trainer.yaml": "extends: [trainer.yaml, more.yaml]\nclip_grad: 2\n",
        "strong/modules/more.yaml": "seed: 2\n",
        "weak/modules/trainer.yaml": "lr: 1\nseed: 1\nclip_grad: 1\nweight_decay: 1\n",
        "tiny.yaml": "hidden_size: 128\n",
        "exp.yaml": HEAD + MODULE,
    }
    for name, text in presets.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    experiment = resolve("exp.yaml", env={}, preset_dirs=lambda _: ["strong", "weak"], cwd=str(tmp_path))
    wanted = {"lr": 3, "clip_grad": 2, "seed": 2, "weight_decay": 1, "hidden_size": 128}
    assert values(experiment) == wanted


def test_preset_that_hides_nothing(tmp_path: Path) -> None:
    """A preset that extends its own name where there is no other of that name is an error with its line."""
    presets = {"trainer.yaml": "extends: trainer.yaml\nlr: 3\n", "tiny.yaml": "{}\n", "exp.yaml": HEAD + MODULE}
    for name, text in presets.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        resolve("exp.yaml", env={}, preset_dirs=lambda _: [], cwd=str(tmp_path))
    assert "trainer.yaml" in raised.value.what
    assert raised.value.where == "trainer.yaml:1"
