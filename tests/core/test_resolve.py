"""An experiment file, its bases, presets and overrides become one experiment with origins."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from primus_core.experiment import Experiment, Leaf
from primus_core.resolve import resolve
from primus_core.yamlfile import dump_experiment

PRESETS = {
    "presets/modules/pre_trainer.yaml": "extends: trainer_base.yaml\nlr: 1e-4\nclip_grad: 1.0\n",
    "presets/modules/trainer_base.yaml": "lr: 1\nseed: 1234\nprofiler: {start: 1, end: 2}\n",
    "presets/models/tiny.yaml": "extends: [../models/base.yaml]\nhidden_size: 128\n",
    "presets/models/base.yaml": "hidden_size: 64\nnum_layers: 4\nclip_grad: 0.5\n",
}
EXPERIMENT = """\
work_group: team
user_name: me
exp_name: first
workspace: out
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: tiny.yaml
    overrides:
      lr: 0123
      data: [no, 1e5]
"""

Resolved = Callable[..., Experiment]


@pytest.fixture
def resolved(tmp_path: Path) -> Resolved:
    """Write files, and resolve ``exp.yaml``."""

    def run(
        *overrides: str,
        exp: str = EXPERIMENT,
        files: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Experiment:
        for name, text in {**PRESETS, "exp.yaml": exp, **(files or {})}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return resolve(
            "exp.yaml", overrides=overrides, env=env or {}, preset_dirs=lambda framework: ["presets"], cwd=str(tmp_path)
        )

    return run


def params(experiment: Experiment) -> Mapping[str, Leaf]:
    return experiment.modules["pre_trainer"].params


def values(experiment: Experiment) -> dict[str, object]:
    return {key: leaf.value for key, leaf in params(experiment).items()}


def history(leaf: Leaf) -> list[str]:
    return [f"{one.origin} {one.origin.layer} {one.value}" for one in (leaf, *leaf.overrode)]


def test_the_head_of_an_experiment(resolved: Resolved, tmp_path: Path) -> None:
    """Names, workspace and module are those of the file; the workspace is relative to the current folder."""
    experiment = resolved()
    assert experiment.file == "exp.yaml"
    assert experiment.folder == f"{tmp_path}/out/team/me/first"
    module = experiment.modules["pre_trainer"]
    assert (module.name, module.framework, module.config, module.model) == (
        "pre_trainer",
        "megatron",
        "pre_trainer.yaml",
        "tiny.yaml",
    )
    assert str(module.framework_origin) == "exp.yaml:7"


def test_layers_override_each_other(resolved: Resolved) -> None:
    """Module preset, model preset, overrides and command line come in this order, each on top of its own bases."""
    experiment = resolved("hidden_size=256")
    assert values(experiment) == {
        "lr": 123,
        "seed": 1234,
        "profiler.start": 1,
        "profiler.end": 2,
        "clip_grad": 0.5,
        "hidden_size": 256,
        "num_layers": 4,
        "data": ["no", 1e5],
    }


def test_origins_tell_the_whole_history(resolved: Resolved) -> None:
    """A leaf knows its file, line and layer, and everything that it overrode, newest first."""
    found = params(resolved("hidden_size=256"))
    assert history(found["lr"]) == [
        "exp.yaml:11 overrides 123",
        "presets/modules/pre_trainer.yaml:2 preset 0.0001",
        "presets/modules/trainer_base.yaml:1 preset 1",
    ]
    assert history(found["hidden_size"]) == [
        "command line command line 256",
        "presets/models/tiny.yaml:2 model 128",
        "presets/models/base.yaml:1 model 64",
    ]
    assert history(found["clip_grad"])[0] == "presets/models/base.yaml:3 model 0.5"
    assert found["profiler.end"].origin.column == 22


def test_texts_reach_the_parameters(resolved: Resolved) -> None:
    """What was written is kept beside the value."""
    found = params(resolved("tag=1e5"))
    assert found["lr"].text == "0123"
    assert found["data"].text == [None, "1e5"]
    assert (found["tag"].value, found["tag"].text) == (1e5, "1e5")


def test_extends_of_experiments(resolved: Resolved) -> None:
    """Later bases beat earlier ones, the file beats its bases, maps merge, lists replace, overrides beat presets."""
    files = {
        "base/one.yaml": EXPERIMENT + "      hidden_size: 32\nenv: {A: one, B: one}\n",
        "base/two.yaml": "extends: ../three.yaml\nexp_name: two\nmodules: {pre_trainer: {overrides: {data: [x]}}}\n",
        "three.yaml": "exp_name: three\nuser_name: three\ndirect: {gpus_per_node: 2}\n",
    }
    experiment = resolved(exp="extends: [base/one.yaml, base/two.yaml]\nenv: {B: me}\n", files=files)
    assert (experiment.work_group, experiment.user_name, experiment.exp_name) == ("team", "three", "two")
    assert values(experiment)["data"] == ["x"]
    assert values(experiment)["hidden_size"] == 32
    assert {name: leaf.value for name, leaf in experiment.env.items()} == {"A": "one", "B": "me"}
    assert history(experiment.env["B"]) == ["exp.yaml:2 file me", "base/one.yaml:14 extends one"]
    assert str(params(experiment)["data"].origin) == "base/two.yaml:3"
    assert experiment.launchers["direct"]["gpus_per_node"].origin.layer == "extends"


def test_variables(resolved: Resolved, tmp_path: Path) -> None:
    """Variables are replaced everywhere, take their type when they are the whole value, and may have a default."""
    exp = EXPERIMENT.replace("me\n", "${USER}\n").replace("tiny.yaml", "${MODEL:tiny}.yaml").replace("out", "${W:}") + (
        "      steps: ${STEPS:50}\n"
        "      bf16: '${BF16:true}'\n"
        "      path: ${A:/x}/${B:y}-${A:/x}\n"
        "      none: ${N:null}\n"
        "      empty: ${N:}\n"
        "      url: ${U:http://h:80/p}\n"
        "      items: ['${STEPS:1}', \"${A:0123}\"]\n"
        "      stdlib: ${PRIMUS_STDLIB}/*.py\n"
    )
    env = {"USER": "0123", "STEPS": "7", "B": "tRUE", "BF16": "tRUE", "W": "w"}
    experiment = resolved(exp=exp, env=env)
    got = values(experiment)
    assert experiment.user_name == "0123"
    assert experiment.workspace == f"{tmp_path}/w"
    assert got["hidden_size"] == 128
    assert [got[key] for key in ("steps", "bf16", "none", "empty", "items")] == [7, True, None, None, [7, 123]]
    assert params(experiment)["items"].text == ["7", "0123"]
    assert (got["path"], got["url"]) == ("/x/tRUE-/x", "http://h:80/p")
    assert got["stdlib"] == f"{sysconfig.get_path('stdlib')}/*.py"
    assert values(resolved(exp=exp, env={**env, "PRIMUS_STDLIB": "/lib"}))["stdlib"] == "/lib/*.py"


def test_sections(resolved: Resolved) -> None:
    """Environment variables are text as it was written; sections of launchers and platform have dotted leaves."""
    exp = (
        EXPERIMENT
        + "env: {A: 1e5, B: true, C: null}\nslurm: {time: 12:00:00, a: {b: 1}}\nplatform: {name: x}\ndirect:\n"
    )
    experiment = resolved(exp=exp)
    assert {name: leaf.value for name, leaf in experiment.env.items()} == {"A": "1e5", "B": "true", "C": None}
    assert {name: leaf.value for name, leaf in experiment.launchers["slurm"].items()} == {"time": "12:00:00", "a.b": 1}
    assert experiment.platform["name"].value == "x"
    assert "direct" not in experiment.launchers


def test_dotted_and_nested_parameters_are_one(resolved: Resolved) -> None:
    """``a.b: 1`` is ``a: {b: 1}``; an empty map changes nothing, null clears a group."""
    found = values(resolved("profiler={}", exp=EXPERIMENT + "      profiler.end: 9\n      empty: {}\n"))
    assert (found["profiler.start"], found["profiler.end"], found["empty"]) == (1, 9, {})
    cleared = values(resolved("profiler=null"))
    assert "profiler.start" not in cleared
    assert cleared["profiler"] is None


def test_the_command_line(resolved: Resolved) -> None:
    """Every part of an experiment can be set by its path; parameters need none, and the last word wins."""
    experiment = resolved(
        "exp_name=second",
        "env.A=1e5",
        "direct.gpus_per_node=2",
        "model=base.yaml",
        "modules.pre_trainer.overrides.seed=5",
        "lr=1",
        "lr=1e-3",
        "data=[a, 0.3]",
        "text='50'",
        "profiler={end: 3}",
        "profiler.start=null",
        "save=a=b",
    )
    found = values(experiment)
    assert experiment.exp_name == "second"
    assert experiment.env["A"].value == "1e5"
    assert experiment.launchers["direct"]["gpus_per_node"].value == 2
    assert found["hidden_size"] == 64
    assert [found[key] for key in ("seed", "lr", "data", "text")] == [5, 1e-3, ["a", 0.3], "50"]
    assert [found[key] for key in ("profiler.start", "profiler.end", "save")] == [None, 3, "a=b"]
    assert {params(experiment)[key].origin.layer for key in ("seed", "lr", "profiler.end")} == {"command line"}


def test_a_parameter_of_the_command_line_is_of_every_module(resolved: Resolved) -> None:
    """A key without a path sets the parameter of each module."""
    second = EXPERIMENT[EXPERIMENT.index("  pre_trainer:") :].replace("  pre_trainer:", "  other:")
    experiment = resolved("lr=5", exp=EXPERIMENT + second)
    assert [module.params["lr"].value for module in experiment.modules.values()] == [5, 5]


def test_where_presets_are_found(resolved: Resolved) -> None:
    """The experiment's folder comes before the others, for bases of presets too; an experiment is no preset."""
    files = {
        "tiny.yaml": EXPERIMENT,
        "models/tiny.yaml": "extends: shared.yaml\nhidden_size: 1\n",
        "presets/shared.yaml": "num_layers: 2\n",
    }
    found = values(resolved(files=files))
    assert (found["hidden_size"], found["num_layers"]) == (1, 2)


def test_the_framework_chooses_the_presets(tmp_path: Path) -> None:
    """The folders of presets are asked for with the framework's name."""
    for folder in ("megatron", "torchtitan"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.yaml").write_text(f"kind: {folder}\n")
    exp = EXPERIMENT.replace("pre_trainer.yaml", "p.yaml").replace("tiny.yaml", "p.yaml")
    (tmp_path / "exp.yaml").write_text(exp)
    experiment = resolve(
        "exp.yaml", overrides=["framework=torchtitan"], env={}, preset_dirs=lambda name: [name], cwd=str(tmp_path)
    )
    assert values(experiment)["kind"] == "torchtitan"


def test_home_in_the_workspace(resolved: Resolved) -> None:
    """``~`` is the home folder of the environment."""
    assert resolved("workspace=~/runs", env={"HOME": "/home/me"}).workspace == "/home/me/runs"
    assert resolved("workspace=/abs/../w").workspace == "/w"


def test_resolving_writes_nothing(resolved: Resolved, tmp_path: Path) -> None:
    """Resolving leaves no file behind."""
    resolved()
    before = sorted(os.walk(tmp_path))
    resolved("exp_name=other")
    assert sorted(os.walk(tmp_path)) == before


def test_a_dumped_experiment_is_the_same_experiment(resolved: Resolved, tmp_path: Path) -> None:
    """The dump of an experiment resolves to the same values."""
    first = resolved("tag=0123", "env.A=true", "direct.gpus_per_node=2", "text='50'")
    second = resolved(exp=dump_experiment(first))
    assert values(second) == values(first)
    assert {key: leaf.text for key, leaf in params(second).items()} == {
        key: leaf.text for key, leaf in params(first).items()
    }
    assert second.folder == first.folder
    assert second.env["A"].value == "true"
    assert second.launchers["direct"]["gpus_per_node"].value == 2
    assert "lr: 0123  # exp.yaml:11 (overrides)" in dump_experiment(first)
