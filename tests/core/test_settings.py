"""Core's own parameters of a module."""

from __future__ import annotations

import pytest

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Module, Origin, Value
from primus_core.planning.settings import core_settings


def module(**params: Value) -> Module:
    origin = Origin(file="exp.yaml", line=9)
    return Module(
        name="pre_trainer",
        framework="megatron",
        framework_origin=origin,
        config="c",
        model="m",
        params={key.replace("__", "."): Leaf(value=value, origin=origin) for key, value in params.items()},
    )


def test_what_is_set_stands_beside_defaults() -> None:
    """Core's parameters are typed, those that nobody set have their default, and the back end's are left alone."""
    settings = core_settings(module(accelerator="cpu", lr="fast"))
    assert (settings["accelerator"], settings["text_field"]) == ("cpu", "text")
    assert "lr" not in settings.values


def test_an_entry_of_a_scalar_parameter_is_unknown() -> None:
    """``accelerator: {x: 1}`` names nothing, and is refused instead of ignored."""
    with pytest.raises(ConfigError) as caught:
        core_settings(module(accelerator__x=1))
    assert caught.value.what == "unknown parameter `accelerator.x`"
    assert caught.value.where == "exp.yaml:9"


@pytest.mark.parametrize("name", ["log_max_bytes", "log_backups"])
def test_a_size_below_zero_is_refused(name: str) -> None:
    """A log file cannot have less than no bytes, nor fewer than no predecessors; file and line are named."""
    with pytest.raises(ConfigError, match=rf"`{name}` is -1") as caught:
        core_settings(module(**{name: -1}))
    assert caught.value.where == "exp.yaml:9"
