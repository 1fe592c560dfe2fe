"""How to train with Megatron: what every back end understands, and what only Megatron has."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_backend_megatron import host
from primus_backend_megatron.host.schema import schema_for
from primus_core import discovery
from primus_core.experiment import Module
from primus_core.parameters import portable
from primus_core.plan import Translation
from primus_core.resolve import resolve
from tests.megatron.experiments import target_of

LIBRARY = schema_for("0.19.2").parameters
EXPERIMENT = """
work_group: team
user_name: me
exp_name: exp
workspace: out
modules:
  trainer: {framework: megatron, config: CONFIG, model: llama3.1_8B.yaml, overrides: {mock_data: true}}
"""


def translated(config: str, folder: Path) -> tuple[Module, Translation]:
    (folder / "exp.yaml").write_text(EXPERIMENT.replace("CONFIG", config), encoding="utf-8")
    plugins = discovery.scan()
    experiment = resolve(
        "exp.yaml", env={}, preset_dirs=lambda name: discovery.preset_dirs(plugins, name), cwd=str(folder)
    )
    module = experiment.modules["trainer"]
    translation = host.translate_config(experiment, module, target_of("cuda"))
    assert translation is not None
    return module, translation


@pytest.mark.parametrize(("config", "lr"), [("pre_trainer.yaml", 3e-4), ("sft_trainer.yaml", 1e-5)])
def test_own_preset_builds_on_the_portable_one(config: str, lr: float, tmp_path: Path) -> None:
    """Megatron's preset has the values of primus-core's of the same name, and its own."""
    module, translation = translated(config, tmp_path)
    assert translation.native["lr"] == lr
    assert translation.native["use_distributed_optimizer"] is True
    assert "primus_core" in module.params["lr"].origin.file
    assert "primus_backend_megatron" in module.params["use_distributed_optimizer"].origin.file


@pytest.mark.parametrize("config", ["pre_trainer.yaml", "sft_trainer.yaml"])
def test_portable_presets_speak_portable_names(config: str, tmp_path: Path) -> None:
    """What primus-core's presets set, every back end understands."""
    module, _ = translated(config, tmp_path)
    own = [name for name, leaf in module.params.items() if "primus_core/presets/modules" in leaf.origin.file]
    assert own
    assert set(own) <= portable().keys()


def test_presets_repeat_no_default(tmp_path: Path) -> None:
    """A preset of Megatron's own says nothing that Megatron does anyway, and nothing twice."""
    module, _ = translated("pre_trainer.yaml", tmp_path)
    ours = {name: leaf for name, leaf in module.params.items() if "primus_backend_megatron" in leaf.origin.file}
    assert not [name for name, leaf in ours.items() if leaf.value == LIBRARY[name].default or leaf.overrode]


def test_tuning_begins_anew(tmp_path: Path) -> None:
    """A model that is trained on starts from its weights, not from where its training ended."""
    assert translated("sft_trainer.yaml", tmp_path)[1].native["finetune"] is True
    assert "finetune" not in translated("pre_trainer.yaml", tmp_path)[1].native
