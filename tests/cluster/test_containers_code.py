"""Ranks in containers whose image lacks Primus, has it, or has another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.carried import Witness, witness
from tests.testbed.containers import Engine
from tests.testbed.images import PREFIX, Image, with_primus

pytestmark = pytest.mark.cluster

MODULES = ("primus_core", "primus_launchers", "cattrs", "attr", "packaging")


def _run(engine: Engine, image: Image, carried: Witness, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the image's Python, which sees the run's folder and, as it cannot change it, the code."""
    engine.add(image)
    folder, code = carried.rundir.experiment.parent, carried.start.parent
    mounts = (f"--volume={folder}:{folder}", f"--volume={code}:{code}:ro", f"--volume={image.libraries}")
    path = f"--env=PYTHONPATH={folder}"
    return engine.run("run", "--rm", "--network=host", path, *mounts, image.name, "python3", *argv)


def test_an_image_without_primus_runs_the_copy(engine: Engine, plain_image: Image, tmp_path: Path) -> None:
    """Primus and what only it needs come from the run's folder; what the image has, such as attrs, is used."""
    carried = witness(tmp_path, *MODULES)
    done = _run(engine, plain_image, carried, carried.start, "primus_core.rank", carried.plan)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    files = carried.result["files"]
    copied = {name for name, file in files.items() if file.startswith(str(carried.start.parent))}
    assert copied == {"primus_core", "primus_launchers", "cattrs"}
    assert {name for name, file in files.items() if file.startswith(f"/{PREFIX}")} == {"attr", "packaging", "yaml"}
    assert not list(carried.start.parent.rglob("*.pyc"))


def test_an_image_with_primus_can_run_its_own(podman: Engine, primus_image: Image, tmp_path: Path) -> None:
    """An image that has the same Primus carries out the plan without the copy."""
    carried = witness(tmp_path, *MODULES)
    done = _run(podman, primus_image, carried, "-m", "primus_core.rank", carried.plan)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(file.startswith(f"/{PREFIX}") for file in carried.result["files"].values())


def test_another_primus_of_the_image_is_not_used(podman: Engine, tmp_path: Path) -> None:
    """A plan runs with the Primus that made it, not with the older one of the image, and that is said."""
    image = with_primus(tmp_path, version="0.0.9")
    carried = witness(tmp_path, *MODULES)
    done = _run(podman, image, carried, carried.start, "primus_core.rank", carried.plan)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: primus-core 0.1.0 is used, not 0.0.9 of the image" in done.stderr
    assert carried.result["files"]["primus_core"].startswith(str(carried.start.parent))
    refused = _run(podman, image, carried, "-m", "primus_core.rank", carried.plan)
    assert refused.returncode == 1
    assert "primus-core: the plan was made for 0.1.0, this rank has 0.0.9" in refused.stdout + refused.stderr


SHORT = ("accelerator=cpu", "train_iters=2", "--nproc", "2")
ROOT = Path(__file__).parents[2]


def _started(argv: Sequence[str | Path], **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the repository is, with this Python's programs first on PATH."""
    path = f"{Path(sys.executable).parent}:{env.pop('PATH')}"
    return subprocess.run(
        argv,
        env={**os.environ, **env, "PATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def _losses(workspace: Path) -> list[float]:
    rows = next(workspace.rglob("metrics.jsonl")).read_text().splitlines()
    return [json.loads(row)["loss"] for row in rows]


def test_megatron_trains_in_an_image_without_primus(docker: Engine, plain_image: Image, tmp_path: Path) -> None:
    """`DOCKER_IMAGE=... EXP=... bash run_local_pretrain.sh`; the image has the library, and nothing of Primus."""
    docker.add(plain_image)
    script = ["bash", "examples/run_local_pretrain.sh", *SHORT, f"workspace={tmp_path}"]
    options = ["container.engine=docker", f"container.volume={plain_image.libraries}"]
    asked = {"EXP": "examples/llama-tiny.yaml", "DOCKER_IMAGE": plain_image.name}
    done = _started([*script, *options], **docker.env, **asked)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(_losses(tmp_path)) == 2
    assert list(tmp_path.rglob("checkpoints/iter_0000002"))
    assert docker.containers() == []


def test_torchtitan_trains_with_the_image_s_own_primus(podman: Engine, primus_image: Image, tmp_path: Path) -> None:
    """With --no-mount-code nothing is copied: the Primus of the image carries out the plan."""
    podman.add(primus_image)
    options = ["--engine=podman", "--image", primus_image.name, "--volume", primus_image.libraries, "--no-mount-code"]
    command = ["train", "pretrain", "--config", "examples/llama-tiny.yaml", "--framework", "torchtitan"]
    words = ["container", *options, "--", *command, *SHORT, f"workspace={tmp_path}"]
    done = _started([sys.executable, "-m", "primus_core.cli.main", *words], **podman.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(_losses(tmp_path)) == 2
    assert not list(tmp_path.rglob("submission/code"))
    assert podman.containers() == []
