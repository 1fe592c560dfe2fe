"""Files with defaults for launchers."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from primus_core.cli.launching import with_launcher_file
from primus_core.errors import ConfigError, ErrorGroup
from primus_core.planning.launcheroptions import typed_options
from primus_core.planning.sections import put_together
from primus_core.resolve import read_launcher_file
from tests.core.test_launcher_options import experiment


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "launcher.yaml"


def test_the_experiment_wins_over_the_file(file: Path) -> None:
    """Options of the file fill what the experiment's own section leaves open; each keeps its place."""
    file.write_text("direct:\n  gpus_per_node: 8\n  master_port: ${PORT}\ncontainer:\n  image: x\n")
    sections = read_launcher_file(str(file), {"PORT": "29500"}, "/")
    both = put_together([sections, experiment(direct={"gpus_per_node": 2}).launchers], "/")["direct"]
    assert typed_options("direct", both) == {"gpus_per_node": 2, "master_port": 29500}
    assert str(both["master_port"].origin) == f"{file}:3"
    assert [str(leaf.origin) for leaf in both["gpus_per_node"].overrode] == [f"{file}:2"]


def test_sections_of_the_reference_are_known(file: Path) -> None:
    """A file that serves other launchers too is read; a misspelt section is answered with the one that is meant."""
    file.write_text("main: {debug: false}\nslurm: {nodes: 2}\ndirect:\n")
    assert read_launcher_file(str(file), {}, "/")["direct"] == {}
    file.write_text("direkt:\n  gpus_per_node: 2\n")
    with pytest.raises(ConfigError, match="unknown key `direkt`") as caught:
        read_launcher_file(str(file), {}, "/")
    assert (caught.value.where, caught.value.remedy) == (f"{file}:1", "did you mean `direct`?")
    file.write_text("direct: 3\nslurm: [a]\n")
    with pytest.raises(ErrorGroup):
        read_launcher_file(str(file), {}, "/")


def arguments(file: Path, **given: object) -> argparse.Namespace:
    switches = {"silent": False, "debug": False, "dry_run": False}
    asked = {"patch": [], "env_file": [], "log_file": None, **switches, **given}
    return argparse.Namespace(launcher_config=str(file), **asked)


def test_options_that_count_before_the_experiment(file: Path) -> None:
    """Scripts and env files come before those of the command line; paths are relative to the file."""
    file.write_text("direct: {patch: [a.sh, /b.sh], env_file: [x.env], log_file: run.log, silent: true}\n")
    args = with_launcher_file(arguments(file, patch=["c.sh"], env_file=["y.env"]), {})
    folder = file.parent
    assert args.patch == [f"{folder}/a.sh", "/b.sh", "c.sh"]
    assert args.env_file == [f"{folder}/x.env", "y.env"]
    assert (args.log_file, args.silent) == (f"{folder}/run.log", True)
    assert with_launcher_file(arguments(file, log_file="mine.log"), {}).log_file == "mine.log"


def test_options_of_the_command_line_itself(file: Path) -> None:
    """The section `main:` has what the reference has there, and nothing else."""
    file.write_text("main: {debug: true, dry_run: true}\n")
    args = with_launcher_file(arguments(file), {})
    assert (args.debug, args.dry_run, args.silent) == (True, True, False)
    file.write_text("main: {debog: true}\n")
    with pytest.raises(ConfigError, match=r"unknown parameter `main\.debog`"):
        with_launcher_file(arguments(file), {})


def test_options_of_a_wrong_type(file: Path) -> None:
    """What the file says is typed as everywhere."""
    file.write_text("direct:\n  patch: {a: b}\n")
    with pytest.raises(ConfigError) as caught:
        with_launcher_file(arguments(file), {})
    assert caught.value.where == f"{file}:2"


@pytest.mark.parametrize("option", ["patch", "env_file", "log_file", "silent"])
def test_an_experiment_comes_too_late_for_them(option: str) -> None:
    """An experiment that names scripts is told where they belong instead of being run without them."""
    leaves = experiment(direct={option: ["a.sh"]}).launchers["direct"]
    with pytest.raises(ConfigError, match=f"`direct.{option}` is not for an experiment") as caught:
        typed_options("direct", leaves)
    assert f"--{option}" in caught.value.remedy


def test_a_log_level_that_is_none_is_refused(file: Path) -> None:
    """PRIMUS_LOG_LEVEL=LOUD would otherwise silently mean something else."""
    with pytest.raises(ConfigError, match="PRIMUS_LOG_LEVEL is 'LOUD'") as caught:
        with_launcher_file(arguments(file), {"PRIMUS_LOG_LEVEL": "LOUD"})
    assert caught.value.remedy == "one of DEBUG, INFO, WARNING, ERROR"
