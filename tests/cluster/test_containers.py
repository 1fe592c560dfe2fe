"""Ranks in real containers of podman and docker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from primus_core.experiment import Value
from primus_core.testing.launcher import NASTY
from tests.e2e.support import environment, wait_until
from tests.golden import check
from tests.testbed import containers
from tests.testbed.containers import Engine
from tests.testbed.images import Image

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).parent / "contained.py"
SECRET = "s3cr3t-value"
SECONDS = 180


@frozen(kw_only=True)
class Bed:
    """One engine that has the image, and runs in it."""

    engine: Engine
    image: Image

    def start(
        self, folder: Path, task: str, section: dict[str, Value] | None = None, *, ranks: int = 1, **env: str
    ) -> subprocess.Popen[str]:
        given = section or {}
        own = given.get("volume")
        volumes: list[Value] = [self.image.libraries, *(own if isinstance(own, list) else [])]
        asked = {"image": self.image.name, "engine": self.engine.name, **given, "volume": volumes}
        variables = environment(folder, SHOWN_TOKEN=SECRET, **self.engine.env, **env)
        argv = [*self.engine.before, sys.executable, PROGRAM, folder, task, str(ranks), json.dumps(asked)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv, env=variables, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def run(self, folder: Path, task: str, section: dict[str, Value] | None = None, **more: Any) -> tuple[str, int]:
        process = self.start(folder, task, section, **more)
        printed, _ = process.communicate(timeout=SECONDS)
        return printed, process.returncode

    def gone(self) -> bool:
        return not [name for name in self.engine.containers() if name.startswith("primus-")]


@pytest.fixture(scope="module")
def bed(engine: Engine, plain_image: Image) -> Bed:
    return made(engine, plain_image)


def made(engine: Engine, image: Image) -> Bed:
    engine.add(image)
    return Bed(engine=engine, image=image)


def results(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / "exp/runs/r/ranks").glob("rank-*.json")):
        yield json.loads(path.read_text())["result"]


def begun(folder: Path) -> None:
    wait_until((folder / "exp/runs/r/here-0").exists, "the rank's start", SECONDS)


VARIABLES = {f"NCCL_NASTY_{number}": word for number, word in enumerate(NASTY) if word}


@frozen(kw_only=True)
class Looked:
    """What a rank saw, and what was there afterwards."""

    folder: Path
    seen: dict[str, Any]
    printed: str
    left: list[str]


@pytest.fixture(scope="module")
def looked(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    """One run of a rank that looks around, with everything that can be given to a container."""
    folder = tmp_path_factory.mktemp("looked")
    for name in ("run", "given", "kept", "other"):
        (folder / name).mkdir()
    _earlier_containers(bed)
    section: dict[str, Value] = {
        "clean": True,
        "env": ["MINE", "SHOWN", "REFUSED", "SEEN", "SAID=a $HOME"],
        "volume": [f"{folder}/given:/given", f"{folder}/kept:/kept:ro"],
    }
    asked = {
        "SHOWN": " ".join([*VARIABLES, "SHOWN_TOKEN", "MINE", "SAID", "NOT_MINE", "HF_HOME"]),
        "REFUSED": "/given:/kept",
        "SEEN": f"{folder}/other:{folder}/run:{folder}/given:/given",
        "HF_HOME": f"{folder}/hub",
    }
    try:
        printed, status = bed.run(folder / "run", "look", section, **asked, **VARIABLES, MINE="mine", NOT_MINE="no")
        assert status == 0, printed
        (seen,) = results(folder / "run")
        return Looked(folder=folder, seen=seen, printed=printed, left=bed.engine.containers())
    finally:
        for name in ("left", "foreign", "anothers"):
            bed.engine.run("rm", "--force", name)


def _earlier_containers(bed: Bed) -> None:
    """One that a run of this user left, one of another user's run, and one that is none of Primus."""
    run, user = "--label=io.primus.run=old", "--label=io.primus.user="
    for name, labels in (("left", (run, f"{user}{os.getuid()}")), ("foreign", ()), ("anothers", (run, f"{user}4711"))):
        bed.engine.check("run", "--detach", "--network=host", f"--name={name}", *labels, bed.image.name, "sleep", "600")


def test_variables_arrive_byte_for_byte(looked: Looked) -> None:
    """By prefix, by name, by value and as secrets; one that nobody asked for stays outside."""
    expected = {**VARIABLES, "MINE": "mine", "SAID": "a $HOME", "NOT_MINE": None, "HF_HOME": f"{looked.folder}/hub"}
    assert looked.seen["env"] == {**expected, "SHOWN_TOKEN": f"{len(SECRET)} characters"}


def test_a_container_has_the_files_that_it_was_given_and_no_others(looked: Looked) -> None:
    """The run's folder under its own path, volumes under theirs, a read-only one unchanged; caches that are named."""
    folder = looked.folder
    assert looked.seen["seen"] == [f"{folder}/run", "/given"]
    assert looked.seen["refused"] == ["/kept"]
    assert (folder / "given/written").exists()
    assert not (folder / "kept/written").exists()
    assert (looked.seen["cwd"], looked.seen["host"]) == (f"{folder}/run", os.uname().nodename)
    assert (folder / "hub").is_dir()


def test_clean_removes_what_primus_left_and_nothing_else(looked: Looked) -> None:
    """A container of an earlier run goes, running or not; somebody else's and that of another user stay."""
    assert "removed 1 container of earlier runs" in looked.printed
    assert looked.left == ["anothers", "foreign"]


def test_files_belong_to_the_user_that_is_asked_for(docker: Engine, plain_image: Image, tmp_path: Path) -> None:
    """``--user`` decides who the ranks are, and whose files they make."""
    run = tmp_path / "exp/runs/r"
    for folder in (tmp_path / "exp/logs", run / "ranks", run / "submission", run, tmp_path / "exp", tmp_path):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
    section: dict[str, Value] = {"user": "1234:1234", "env": ["SHOWN", "REFUSED", "SEEN"]}
    printed, status = made(docker, plain_image).run(tmp_path, "look", section, SHOWN="HOME", REFUSED="", SEEN="")
    assert status == 0, printed
    (found,) = results(tmp_path)
    assert found["ids"] == [1234, 1234]
    assert (run / "mine-0").stat().st_uid == 1234


def test_a_users_own_engine_needs_no_root(plain_image: Image) -> None:
    """In rootless podman the ranks are root of their container, and their files the calling user's."""
    if reason := containers.lacking_rootless():
        pytest.skip(reason)
    section: dict[str, Value] = {"ipc": "private", "env": ["SHOWN", "REFUSED", "SEEN"]}
    with containers.rootless_podman() as user:
        bed = made(user.engine, plain_image)
        printed, status = bed.run(user.folder, "look", section, SHOWN="HOME", REFUSED="", SEEN="")
        assert status == 0, printed
        (found,) = results(user.folder)
        assert found["ids"] == [0, 0]
        assert (user.folder / "exp/runs/r/mine-0").stat().st_uid == user.uid
        assert bed.gone()


def test_a_ranks_failure_is_the_runs(podman: Engine, plain_image: Image, tmp_path: Path) -> None:
    """The rank that failed is named with its status, the others end, and the container is gone."""
    bed = made(podman, plain_image)
    printed, status = bed.run(tmp_path, "fail", ranks=2)
    check(printed, "container-fails")
    assert status == 3
    assert bed.gone()


def test_memory_that_runs_out_is_told(bed: Bed, tmp_path: Path) -> None:
    """A rank that the kernel ends because of ``--memory`` is reported as out of memory, with the limit."""
    printed, status = bed.run(tmp_path, "eat", {"memory": "700m", "arguments": ["--memory-swap", "700m"]})
    check(printed, "container-memory")
    assert status == 3
    assert bed.gone()
    assert not (tmp_path / "oom").exists()


@pytest.mark.parametrize(("name", "number"), [("docker", signal.SIGTERM), ("podman", signal.SIGINT)])
def test_a_signal_ends_the_ranks(
    name: str, number: signal.Signals, request: pytest.FixtureRequest, plain_image: Image, tmp_path: Path
) -> None:
    """SIGTERM and Ctrl-C reach the ranks; the run ends with the signal's status, and nothing is left."""
    bed = made(request.getfixturevalue(name), plain_image)
    process = bed.start(tmp_path, "wait")
    begun(tmp_path)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number, printed
    assert f"by {number.name}" in printed
    assert bed.gone()


def test_a_container_does_not_outlive_primus(bed: Bed, tmp_path: Path) -> None:
    """When ``primus`` is killed, its container ends and goes."""
    process = bed.start(tmp_path, "wait")
    begun(tmp_path)
    process.kill()
    process.communicate()
    wait_until(bed.gone, "the end of the container", SECONDS)


CASES: dict[str, tuple[dict[str, Value], str, int]] = {
    "image": ({"image": "registry.invalid/none:1"}, "its registry cannot be reached", 1),
    "python": ({"python": "python9"}, "has no python9", 1),
    "primus": ({"mount_code": False}, "has no Primus", 1),
    "option": ({"arguments": ["--no-such-option"]}, "does not know an option", 2),
    "device": ({"device": ["/dev/none"]}, "has no /dev/none", 1),
    "volume": ({"volume": ["/no/folder:/x"]}, "has no /no/folder", 2),
    "engine": ({"engine": "/no/engine"}, "is not installed", 1),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_said_with_what_to_do(bed: Bed, tmp_path: Path, case: str) -> None:
    """Nothing runs, and the screen has the reason and a remedy instead of the engine's words alone."""
    section, said, code = CASES[case]
    printed, status = bed.run(tmp_path, "look", section)
    error = next((line for line in printed.splitlines() if line.startswith("error: ")), "")
    assert said in error, printed
    assert "\n  try: " in printed, printed
    assert status == code
    assert bed.gone()


def test_an_engine_that_is_not_there_is_said(docker: Engine, plain_image: Image, tmp_path: Path) -> None:
    """A daemon that does not run is told, and what starts it."""
    bed = Bed(engine=evolve(docker, env={**docker.env, "DOCKER_HOST": "unix:///no/socket"}), image=plain_image)
    printed, status = bed.run(tmp_path, "look")
    assert status == 1
    assert "does not answer" in printed
    assert "systemctl start docker" in printed
