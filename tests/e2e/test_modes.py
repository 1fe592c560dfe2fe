"""Modes before a command, one inside of the other: what is planned, what is refused, and what a dry run tells."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primus_core.cli.main import main
from tests.e2e.support import EXAMPLE

SECRET = "hush-hush-hush"
PROGRAM = "print('hello')\n"
NASTY = ["two words", "$HOME", 'say "x"', "new\nline", "--", "-N", ""]

Planned = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, whose home is another one, and where nothing is set that a mode reads."""
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "home").mkdir()
    (place / "exp.yaml").write_text(EXAMPLE.read_text().replace("global_batch_size: 8", "global_batch_size: 16"))
    for name in ("DOCKER_IMAGE", "SLURM_JOB_ID", "GPUS_PER_NODE", "NNODES", "PRIMUS_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRIMUS_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def planned(folder: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """The plan that a command line prints whose command is `plan`, on cpu."""

    def run(*words: str) -> dict[str, Any]:
        assert main([*words, "plan", "exp.yaml", "accelerator=cpu", "--run-id", "r"]) == 0, capsys.readouterr().err
        return dict(json.loads(capsys.readouterr().out))

    return run


def test_modes_stand_inside_of_each_other(planned: Planned, folder: Path) -> None:
    """Slurm's options, the container's and those of the ranks reach one plan, each in its section."""
    (folder / "data").mkdir()
    container = ["container", "--image", "mine:1", "--volume", "./data:/d:ro", "--ulimit", "nofile=9", "--env", "A=b c"]
    plan = planned("slurm", "srun", "-N2", "--gres=gpu:2", "--", *container, "--", "direct", "--env", "B=d", "--")
    job = plan["job"]
    assert (plan["launcher"], job["inside"], job["nodes"], job["task"]["ranks_per_node"]) == (
        "slurm",
        "container",
        2,
        2,
    )
    assert job["options"] == job["sections"]["slurm"] == {"mode": "srun", "nodes": "2", "gres": "gpu:2"}
    section = job["sections"]["container"]
    assert section["image"] == "mine:1"
    assert section["volume"] == [f"{folder}/data:/d:ro"]
    assert section["arguments"] == ["--ulimit", "nofile=9"]
    assert {name: job["env"][name] for name in "AB"} == {"A": "b c", "B": "d"}
    assert (job["accelerator"], job["run_dir"]) == ("cpu", plan["run_dir"])


def test_what_a_container_has_of_this_host(planned: Planned, folder: Path, tmp_path: Path) -> None:
    """The experiment's file and the data to read, the workspace and the place of checkpoints to write, no more."""
    (tmp_path / "ckpt").mkdir()
    mounts = planned("container", "--image=x", "--")["job"]["mounts"]
    written = [mount["path"] for mount in mounts if mount["writable"]]
    read = {mount["path"] for mount in mounts} - set(written)
    assert written == [str(tmp_path / "workspace")]
    assert f"{folder}/exp.yaml" in read
    assert not any(folder == Path(path) or Path(path) in folder.parents for path in read)
    assert planned("direct", "--")["job"]["mounts"] == []


def test_the_launchers_of_the_users_home_count(planned: Planned, tmp_path: Path) -> None:
    """~/.primus.yaml fills what the command line leaves open; an image in it means a container on each node."""
    (tmp_path / "home/.primus.yaml").write_text(
        "slurm: {partition: gpu, nodes: 4, gpus_per_node: 2, time: 1:00}\ncontainer: {image: mine}\n"
    )
    job = planned("slurm", "sbatch", "-N", "2", "--")["job"]
    assert job["options"] == {"partition": "gpu", "nodes": "2", "gpus-per-node": "2", "time": "1:00", "mode": "sbatch"}
    assert job["inside"] == "container"
    assert planned("slurm", "-N", "2", "--", "direct", "--")["job"]["inside"] == "direct"


def test_files_that_name_nodes(
    planned: Planned, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a preflight count from any folder; one without a node excludes none, and no job can run on its nodes."""
    (tmp_path / "home/.primus.yaml").write_text("slurm: {nodes: 2, nodelist: ./good.txt}\n")
    (tmp_path / "home/good.txt").write_text("node2\nnode3\n")
    (folder / "bad.txt").write_text("node1\n")
    options = planned("slurm", "sbatch", "--exclude=./bad.txt", "--")["job"]["options"]
    assert options["exclude"] == f"{folder}/bad.txt"
    assert options["nodelist"] == f"{tmp_path}/home/good.txt"
    (folder / "bad.txt").write_text("# none\n")
    assert "exclude" not in planned("slurm", "-x", "./bad.txt", "--")["job"]["options"]
    run = ["--", "run", "exp.yaml", "accelerator=cpu"]
    assert main(["slurm", "-N2", "-w", "./bad.txt", *run]) == 2
    assert "the file of --nodelist names no node" in capsys.readouterr().err
    assert main(["slurm", "sbatch", "-N2", "-F", "none.txt", *run]) == 2
    assert "none.txt" in capsys.readouterr().err


def test_a_program_in_a_container_on_slurm_gets_its_arguments_byte_for_byte(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through three modes nothing is parsed that stands behind the last dashes."""
    (folder / "show.py").write_text(PROGRAM)
    words = ["slurm", "-N2", "--", "container", "--image=x", "--", "direct", "--nproc=2", "--script", "show.py"]
    assert main([*words, "--output", "plan.json", "--", *NASTY]) == 0, capsys.readouterr().err
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["task"]["arguments"] == {"path": f"{folder}/show.py", "argv": NASTY}
    assert (plan["job"]["inside"], plan["job"]["nodes"], plan["target"]["ranks_per_node"]) == ("container", 2, 2)
    assert {"path": str(folder), "writable": False} in plan["job"]["mounts"]


@pytest.mark.parametrize(
    "words",
    [
        "slurm srun -N2 --gres=gpu:2 -- container --image x --env A=1 --memory 1G -- train pretrain --config exp.yaml",
        "--config named.yaml slurm sbatch -N 2 -t 8:00 -- direct --nproc 2 -- run exp.yaml --numa",
        "container --no-mount-code --clean --image x -- run exp.yaml",
    ],
)
def test_the_first_command_of_a_dry_run_makes_the_same_plan(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pasted with --output taken away it prints the plan that the run itself would have written."""
    (folder / "named.yaml").write_text("slurm: {partition: gpu}\n")
    override = ["accelerator=cpu", "--run-id", "r"]
    assert main(["--dry-run", *words.split(), *override]) == 0, capsys.readouterr().err
    shown = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("primus "))
    pasted = shlex.split(shown.removesuffix(" &&"))[1:]
    assert main(pasted[: pasted.index("--output")]) == 0
    again = json.loads(capsys.readouterr().out)
    asked = words.replace("train pretrain --config", "plan").replace("run exp", "plan exp").split()
    assert main([*asked, *override]) == 0
    assert json.loads(capsys.readouterr().out)["job"] == again["job"]
    assert not (folder.parent / "workspace").exists()


def test_a_secret_given_to_a_mode_is_not_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--env HF_TOKEN=...` of the container reaches the ranks by inheritance; a dry run and a plan have its name."""
    words = ["container", "--image=x", "--env", f"HF_TOKEN={SECRET}", "--"]
    assert main(["--dry-run", *words, "train", "pretrain", "--config", "exp.yaml", "accelerator=cpu"]) == 0
    dry = capsys.readouterr().out
    (folder / "show.py").write_text(PROGRAM)
    assert main(["--dry-run", *words, "direct", "--script=show.py"]) == 0
    script = capsys.readouterr().out
    assert main([*words, "plan", "exp.yaml", "accelerator=cpu"]) == 0
    plan = capsys.readouterr().out
    assert SECRET not in dry + script + plan
    assert "export      HF_TOKEN, before the commands" in dry
    assert json.loads(plan)["job"]["secrets"] == ["HF_TOKEN"]


def test_what_patch_scripts_export_reaches_a_container(planned: Planned, folder: Path) -> None:
    """By name and value, weaker than `env:`, but for what means places of the host."""
    (folder / "set.sh").write_text("export PATH=/added:$PATH NCCL_X=1 B=script A_KEY=hush\n")
    words = ["--", "direct", "--patch", "set.sh", "--env", "B=option", "--"]
    job = planned("container", "--image=x", *words)["job"]
    assert {name: job["env"].get(name) for name in ("NCCL_X", "B", "PATH", "A_KEY")} == {
        "NCCL_X": "1",
        "B": "option",
        "PATH": None,
        "A_KEY": None,
    }
    assert job["secrets"] == ["A_KEY"]


def test_the_image_is_told_and_which_one_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first line names the image of the run; a DOCKER_IMAGE that --image overrides is told."""
    monkeypatch.setenv("DOCKER_IMAGE", "of/variable:1")
    run = ["--", "run", "exp.yaml", "accelerator=cpu"]
    assert main(["--dry-run", "slurm", "-N2", "--gres=gpu:2", *run]) == 0
    told = capsys.readouterr()
    assert "4 ranks (slurm, container of/variable:1)" in told.out.splitlines()[0]
    assert "DOCKER_IMAGE" not in told.err
    assert main(["--dry-run", "container", "--image=mine", *run]) == 0
    told = capsys.readouterr()
    assert "2 ranks (container mine)" in told.out.splitlines()[0]
    assert "it is of/variable:1, and command line names mine" in told.err


def test_a_file_may_ask_for_dry_runs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`main: {dry_run: true}` holds for every command that would start something."""
    (tmp_path / "home/.primus.yaml").write_text("main: {dry_run: true}\n")
    assert main(["run", "exp.yaml"]) == 0
    assert "primus plan exp.yaml" in capsys.readouterr().out
    assert not (tmp_path / "workspace").exists()


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        ("slurm srun -N 2 train", "'train' belongs to no option of srun", "primus slurm srun -N 2 --"),
        ("slurm srun -N 2", "no command", "primus slurm ... -- train pretrain"),
        ("slurm srn -N 2 -- run exp.yaml", "`slurm` knows no 'srn'", "did you mean srun?"),
        ("slurm -N 2-4 -- run exp.yaml", "--nodes=2-4: no number of nodes", "--nodes=4"),
        ("slurm srun --output-script x -- run exp.yaml", "--output-script is for sbatch", "primus slurm sbatch"),
        ("container --image x -- slurm -N2 -- run exp.yaml", "`slurm` stands inside of `container`", "put it before"),
        ("direct -- container -- run exp.yaml", "`container` stands inside of `direct`", "put it before"),
        ("container -- direct -- direct -- run exp.yaml", "`direct` stands inside of `direct`", "leave `direct` out"),
        ("container exp.yaml -- run", "'exp.yaml' belongs to no option of the container", "primus container ... --"),
        ("container -- --script x.py", "--script stands behind `--`", "-- direct --script PATH"),
        ("container -- trian", "`container` cannot start 'trian'", "did you mean train?"),
        ("slurm -N2 -- run exp.yaml --launcher ssh", "--launcher ssh in `slurm`", "leave --launcher out"),
        ("container -- direct --single -- run exp.yaml", "--single in `container`", "leave --single out"),
        ("container --volume", "argument --volume/-v: expected one argument", "primus container --help"),
    ],
)
def test_wrong_words_are_told_with_a_remedy(
    folder: Path, words: str, what: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, before anything is looked at that takes long."""
    assert main(words.split()) == 2
    told = capsys.readouterr().err
    assert what in told
    assert remedy in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("slurm --help", "primus slurm [options] [srun|sbatch]"),
        ("slurm srun -N 2 --help", "primus slurm [options] [srun|sbatch]"),
        ("slurm -- --help", "  container "),
        ("container --help", "--no-mount-code"),
        ("container -- --help", "  direct "),
        ("slurm -- container -- direct --help", "--script PATH"),
        ("container -- train --help", "primus train"),
    ],
)
def test_each_level_has_its_help(words: str, says: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--help explains the level at which it stands."""
    try:
        status = main(words.split())
    except SystemExit as ended:
        status = int(str(ended.code or 0))
    assert status == 0
    assert says in capsys.readouterr().out


def test_where_a_job_script_goes_is_not_for_other_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment that a run keeps has no --output-script; a script is written without Slurm here too."""
    monkeypatch.setenv("PATH", str(folder))
    words = ["slurm", "sbatch", "-N1", "--output-script=job.sh", "--", "run", "exp.yaml", "accelerator=cpu"]
    assert main([*words, "--run-id", "r"]) == 0
    (kept,) = folder.parent.glob("workspace/*/*/*/runs/r/experiment.resolved.yaml")
    assert "mode: sbatch" in kept.read_text()
    assert "output_script" not in kept.read_text()
    assert (folder / "job.sh").read_text().startswith("#!/bin/bash")


def test_config_launcher_tells_where_options_come_from(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a launcher's file, with the place of each option and what it is stronger than; secrets by name."""
    (folder / "l.yaml").write_text(f"container:\n  options: {{memory: 1G}}\n  env: [A_TOKEN={SECRET}]\n")
    assert main(["--config", "l.yaml", "config", "launcher", "exp.yaml", "container.memory=2G"]) == 0
    told = capsys.readouterr().out
    assert '  memory: "2G"  # command line, over l.yaml:2\n' in told
    assert '  image: "rocm/primus:v26.3"  # launcher_defaults.yaml:9\n' in told
    assert "  env: [A_TOKEN]  # l.yaml:3\n" in told
    assert "  gpus_per_node: 2  # exp.yaml:" in told
    assert SECRET not in told
    (folder / "l.yaml").write_text("container: {imge: x}\n")
    assert main(["config", "launcher", "--config", "l.yaml"]) == 2
    assert "did you mean `container.image`?" in capsys.readouterr().err


def test_paths_may_be_those_of_a_volume_in_the_container(folder: Path, tmp_path: Path) -> None:
    """`--volume /mnt/data:/data` and `/data/...`, in the command and in the experiment, mean the files on this host."""
    data = tmp_path / "mnt"
    data.mkdir()
    (data / "corpus.txt").write_text("some words to learn\n" * 9)
    text = (folder / "exp.yaml").read_text().replace("    overrides:\n", "    overrides:\n      save: /inner/ckpt\n")
    (data / "exp.yaml").write_text(text)
    volume = f"--volume={data}:/inner"
    words = ["train_data_path=/inner/corpus.txt", "accelerator=cpu", "--output", str(tmp_path / "plan.json")]
    assert main(["container", "--image=x", volume, "--", "plan", "/inner/exp.yaml", *words]) == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    (source,) = plan["prepare"][0]["arguments"]["splits"]["train"]
    assert source["files"] == [f"{data}/corpus.txt"]
    mounts = {mount["path"]: mount["writable"] for mount in plan["job"]["mounts"]}
    assert mounts[f"{data}/corpus.txt"] is False
    assert mounts[f"{data}/ckpt"] is True
