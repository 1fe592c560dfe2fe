"""No plugin is installed here that is not held to its contract."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

from primus_core import discovery
from primus_core.testing.plugin import PluginContract

GROUPS = ("primus.backends", "primus.launchers", "primus.preflight")


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
    assert installed == set(held())
