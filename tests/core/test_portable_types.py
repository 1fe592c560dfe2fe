"""Core reads portable parameters in their types, whatever back end reads them too."""

from __future__ import annotations

from primus_core.experiment import Leaf, Origin, Value
from primus_core.planning.portable import typed_params

HERE = Origin(file="exp.yaml", line=7)


def leaf(value: Value, *variables: str) -> Leaf:
    return Leaf(value=value, origin=HERE, variables=variables)


def test_numbers_and_switches_are_typed() -> None:
    """Text becomes the number or switch that it means; paths, other names and what does not fit stay."""
    params = {
        "mock_data": leaf("off", "X"),
        "micro_batch_size": leaf("8"),
        "global_batch_size": leaf("many"),
        "train_data_path": leaf("a.txt"),
        "split": leaf("95,5,0"),
        "own": leaf("1", "X"),
        "vocab_size": leaf(None),
    }
    got = {key: one.value for key, one in typed_params(params).items()}
    assert got == {
        "mock_data": False,
        "micro_batch_size": 8,
        "global_batch_size": "many",
        "train_data_path": "a.txt",
        "split": "95,5,0",
        "own": "1",
        "vocab_size": None,
    }
    assert typed_params(params)["mock_data"].origin == HERE


def test_numbers_of_switches() -> None:
    """A switch that is 1 is on for core as it is for Megatron: data beside it contradicts it; 2 is no switch."""
    switches = {"mock_data": leaf(1), "bf16": leaf(0), "swiglu": leaf(2), "micro_batch_size": leaf(1)}
    got = {key: one.value for key, one in typed_params(switches).items()}
    assert repr(got) == repr({"mock_data": True, "bf16": False, "swiglu": 2, "micro_batch_size": 1})
