"""No plugin is installed here that is not held to its contract."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from primus_core import discovery
from primus_core.errors import DependencyError
from primus_core.experiment import Experiment, Module, Origin
from primus_core.plan import Target
from primus_core.testing.isolated import load_alone
from primus_core.testing.plugin import PluginContract

GROUPS = ("primus.backends", "primus.launchers", "primus.preflight")
RESERVED = {("primus.backends", "torchtitan")}
"""Back ends that hold their name until they train."""


def held() -> Iterator[tuple[str, str]]:
    """Group and name of each plugin that a module of this folder tests."""
    for path in sorted(Path(__file__).parent.glob("test_*_contract.py")):
        for value in vars(importlib.import_module(f"tests.contract.{path.stem}")).values():
            if isinstance(value, type) and issubclass(value, PluginContract) and hasattr(value, "plugin"):
                yield value.group, value.plugin


def test_every_installed_plugin_has_a_contract_test() -> None:
    """A plugin that is added without a test of its contract is named; so is a test of one that is not there."""
    installed = {(info.group, info.name) for info in discovery.scan() if info.group in GROUPS}
    assert len(installed) >= 5
    assert installed - RESERVED == set(held())


@pytest.mark.parametrize("reserved", sorted(RESERVED), ids=lambda reserved: reserved[1])
def test_a_reserved_back_end_trains_nothing(reserved: tuple[str, str]) -> None:
    """It refuses every experiment; when it no longer does, it needs a contract test instead."""
    module = Module(name="m", framework=reserved[1], framework_origin=Origin(file="e.yaml"), config="c", model="m")
    experiment = Experiment(
        file="e.yaml", work_group="g", user_name="u", exp_name="e", workspace="/w", modules={"m": module}
    )
    target = Target(accelerator="cpu", library_version="1", ranks_per_node=1)
    with pytest.raises(DependencyError, match="does not train yet"):
        load_alone("primus.backends", reserved[1]).translate_config(experiment, module, target)
