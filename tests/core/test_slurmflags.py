"""Slurm's options: every spelling is read, layers are merged, and one spelling is written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.planning.slurmflags import (
    canonical,
    gpus_per_node_of,
    merge_flags,
    nodes_of,
    read_flags,
    step_words,
    to_words,
)


@pytest.mark.parametrize("words", ["-N 4", "-N4", "--nodes=4", "--nodes 4", "-QN4", "-Q -N 4", "-N 2 --nodes=4"])
def test_every_spelling_is_one_option(words: str) -> None:
    """A letter and a name, with the value behind it or in the next word; of two the last counts, as with Slurm."""
    found = read_flags(words.split(), "srun")
    assert {key: value for key, value in found.items() if key != "quiet"} == {"nodes": "4"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("-t 04:00:00", {"time": "04:00:00"}),
        ("--time=1-12", {"time": "1-12"}),
        ("--exclusive -p gpu", {"exclusive": True, "partition": "gpu"}),
        ("--exclusive=user", {"exclusive": "user"}),
        ("-I -n 2", {"immediate": True, "ntasks": "2"}),
        ("-I60", {"immediate": "60"}),
        ("-vvv", {"verbose": 3}),
        ("--part gpu", {"partition": "gpu"}),
        ("--tasks-per-node=1", {"ntasks-per-node": "1"}),
        ("-W 30", {"wait": "30"}),
        ("--new-in-slurm-30 x --other", {"new-in-slurm-30": "x", "other": True}),
        ("-y7", {"-y": "7"}),
        ("--comment=", None),
        ("--nodes", None),
        ("-N", None),
        ("srun", None),
        ("-N2 : -N3", None),
        ("--array=1-3", None),
        ("--pty", None),
        ("--output=log", None),
    ],
)
def test_words_of_srun(words: str, found: Mapping[str, Value] | None) -> None:
    """Times stay text, an optional value stands behind =, unknown options pass; None: refused with a remedy."""
    if found is None:
        with pytest.raises(ConfigError) as caught:
            read_flags(words.split(), "srun")
        assert caught.value.remedy
    else:
        assert read_flags(words.split(), "srun") == found


def test_words_of_sbatch() -> None:
    """What differs: --wait has no value, output is a file of the job, and options of srun are kept for the step."""
    found = read_flags(["-W", "--output=log", "-a", "1-3%1", "--cpu-bind=cores", "--requeue"], "sbatch")
    assert found == {"wait": True, "output": "log", "array": "1-3%1", "cpu-bind": "cores", "requeue": True}
    assert to_words(found, "sbatch") == ("--wait", "--output=log", "--array=1-3%1", "--requeue")
    assert step_words(found) == ("--cpu-bind=cores",)


def test_a_section_of_both_serves_each() -> None:
    """What srun has not, or what would take away the ranks' output, is left out for it."""
    section: Mapping[str, Value] = {
        "mode": "srun", "nodes": 4, "output": "log", "requeue": False, "exclusive": True, "hold": False, "mem": None,
        "nodelist": ["n1", "n2"], "new_key": "a b",
    }  # fmt: skip
    assert to_words(section, "srun") == ("--nodes=4", "--exclusive", "--nodelist=n1,n2", "--new_key=a b")
    assert "--no-requeue" in to_words(section, "sbatch")


@pytest.mark.parametrize(
    ("weaker", "words", "merged"),
    [
        ({"nodes": 4, "time": "1:00"}, "-N2", {"nodes": "2", "time": "1:00"}),
        ({"gpus-per-node": 8}, "--gres=gpu:4", {"gres": "gpu:4"}),
        ({"gpus-per-node": 8}, "--gres=nic:4", {"gpus-per-node": 8, "gres": "nic:4"}),
        ({"mem": "1T"}, "--mem-per-cpu=2G", {"mem-per-cpu": "2G"}),
        ({"exclusive": True}, "-s", {"oversubscribe": True}),
        ({"new-option": 1}, "--new-option 2", {"new-option": "2"}),
    ],
)
def test_the_stronger_layer_wins_per_option(
    weaker: Mapping[str, Value], words: str, merged: Mapping[str, Value]
) -> None:
    """None is doubled; what Slurm would refuse to have beside the stronger one goes."""
    assert merge_flags(weaker, read_flags(words.split(), "srun")) == merged


@pytest.mark.parametrize(
    ("key", "name"),
    [("N", "nodes"), ("gpus_per_node", "gpus-per-node"), ("time", "time"), ("tasks_per_node", "ntasks-per-node"),
     ("mode", "mode"), ("output_script", "output_script"), ("brand_new", "brand-new"), ("y", "-y")],
)  # fmt: skip
def test_keys_of_yaml(key: str, name: str) -> None:
    """A letter or a name, with lines below or between its words; Primus's own keys stay."""
    assert canonical(key) == name


@pytest.mark.parametrize(("text", "number"), [("4", 4), (4, 4), ("4-4", 4), ("2-4", None), ("0", None), ("all", None)])
def test_number_of_nodes(text: Value, number: int | None) -> None:
    """One number; a range is refused, since a plan is made for one."""
    if number is None:
        with pytest.raises(ConfigError, match="--nodes"):
            nodes_of({"nodes": text})
    else:
        assert nodes_of({"nodes": text}) == number
    assert nodes_of({}) is None


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        ({"gpus-per-node": 8}, 8),
        ({"gpus-per-node": "mi300x:4"}, 4),
        ({"gres": "gpu:8"}, 8),
        ({"gres": "nic:2,gpu:mi300x:2(S:0-1)"}, 2),
        ({"gres": "gpu"}, 1),
        ({"gres": "nic:2"}, None),
        ({"gpus-per-task": "2"}, 2),
        ({"gpus": "mi300x:8"}, 4),
        ({"gpus": "5"}, ConfigError),
        ({"gpus-per-node": "many"}, ConfigError),
        ({}, None),
    ],
)
def test_gpus_of_a_node(flags: Mapping[str, Value], number: int | type[ConfigError] | None) -> None:
    """As any of the options says it, for two nodes."""
    if isinstance(number, type):
        with pytest.raises(number):
            gpus_per_node_of(flags, 2)
    else:
        assert gpus_per_node_of(flags, 2) == number
