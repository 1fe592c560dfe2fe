"""The options of launchers in an experiment."""

from __future__ import annotations

import pytest

from primus_core.errors import ConfigError, ErrorGroup
from primus_core.experiment import Experiment, Leaf, Origin, Value
from primus_core.parameters import coerce
from primus_core.planning.launcheroptions import check_sections, launcher_options, launcher_schema


def experiment(**sections: dict[str, Value]) -> Experiment:
    """Sections whose keys stand in lines 1, 2, 3 ..."""
    lines = iter(range(1, 100))
    leaves = {
        section: {
            key: Leaf(value=value, origin=Origin(file="exp.yaml", line=next(lines))) for key, value in keys.items()
        }
        for section, keys in sections.items()
    }
    return Experiment(
        file="exp.yaml",
        work_group="group",
        user_name="user",
        exp_name="exp",
        workspace="/w",
        modules={},
        platform=leaves.pop("platform", {}),
        launchers=leaves,
    )


def test_options_are_typed() -> None:
    """Numbers may be in quotes, as everywhere."""
    options = experiment(direct={"gpus_per_node": "4", "master_addr": "node-0", "master_port": 29500})
    assert launcher_options(options, "direct") == {"gpus_per_node": 4, "master_addr": "node-0", "master_port": 29500}
    assert check_sections(options, "direct") == ()
    assert launcher_options(experiment(), "direct") == {}


@pytest.mark.parametrize("launcher", ["direct", "single"])
def test_a_misspelt_option_is_refused(launcher: str) -> None:
    """``gpus_per_nodes`` is answered with its place and the option that is meant, whichever launcher runs."""
    with pytest.raises(ConfigError) as caught:
        check_sections(experiment(direct={"gpus_per_nodes": 4}), launcher)
    assert caught.value.what == "unknown parameter `direct.gpus_per_nodes`"
    assert caught.value.where == "exp.yaml:1"
    assert caught.value.remedy == "did you mean `direct.gpus_per_node`?"


def test_wrong_options_are_told_together() -> None:
    """A wrong type and an unknown name cost one attempt."""
    with pytest.raises(ErrorGroup) as caught:
        check_sections(experiment(direct={"gpus_per_node": "four", "image": "x"}), "direct")
    assert [error.where for error in caught.value.errors] == ["exp.yaml:1", "exp.yaml:2"]


def test_a_section_that_nobody_reads_is_warned_of() -> None:
    """Sections without a reader in this run are named with the place of each key, and stop nothing."""
    options = experiment(torque={"nodes": 2, "queue": "gpu"}, container={"image": "x"}, platform={"name": "y"})
    findings = check_sections(options, "direct")
    assert {finding.severity for finding in findings} == {"warning"}
    assert [finding.evidence for finding in findings] == [
        "torque.nodes (exp.yaml:1), torque.queue (exp.yaml:2)",
        "platform.name (exp.yaml:4)",
    ]
    assert "`torque:` is not read" in findings[0].summary


def test_a_launcher_of_another_package_checks_its_own_section() -> None:
    """The section of the launcher that runs goes to it as written."""
    options = experiment(torque={"nodes": "2"})
    assert check_sections(options, "torque") == ()
    assert launcher_options(options, "torque") == {"nodes": "2"}


def test_the_schema_types_its_own_defaults() -> None:
    """Every option has a default of its type and a line of help."""
    for option in launcher_schema().parameters.values():
        assert coerce(option, Leaf(value=option.default, origin=Origin(file="x"))) == option.default
        assert option.help
