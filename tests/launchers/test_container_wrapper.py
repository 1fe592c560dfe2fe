"""The program on a node, with a script in the place of an engine: what it does before, beside and after a container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from primus_core.log.events import decode
from primus_launchers.container.request import Request, to_argv

SECRET = "s3cr3t value"
ENGINE = """#!/bin/sh
echo "$@" >> {folder}/calls
case $1 in
  info) echo '{{"SecurityOptions": []}}' ;;
  image) {has} ;;
  pull) {pull} ;;
  run) {run} ;;
esac
"""
STARTED = r"""printf '\036{"kind": "container", "state": "started"}\n'"""
ENDED = r"""printf '\036{"kind": "container", "state": "ended", "status": 7}\n'"""
WAITS = "echo waiting >&2; exec sleep 600"


def program(
    folder: Path, *, run: str = "exit 0", has: str = "exit 0", pull: str = "exit 0", events: bool = True
) -> subprocess.Popen[str]:
    engine = folder / "docker"
    engine.write_text(ENGINE.format(folder=folder, run=run, has=has, pull=pull))
    engine.chmod(0o755)
    asked = Request(
        image="some/image:1", run_id="r", command=("-m", "x"), engine=str(engine), inherit=("MY_TOKEN",), memory="1g"
    )
    return subprocess.Popen(
        [sys.executable, "-m", "primus_launchers.container", *to_argv(asked)],
        env={**os.environ, "MY_TOKEN": SECRET, **({"PRIMUS_CONSOLE": "events"} if events else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(printed: str) -> dict[str, str]:
    """The problem that the program tells `primus`."""
    events = [decode(line.encode()) for line in printed.split("\n")]
    (found,) = [event for event in events if event and event["kind"] == "launcher"]
    problem: dict[str, str] = {**found["problems"][0], "exit_code": found["exit_code"]}
    return problem


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_values_reach_the_container_by_its_input_alone(tmp_path: Path) -> None:
    """The engine's words have no value of a variable; the first line of its input has all of them."""
    process = program(tmp_path, run=f"head -n 1 > {tmp_path}/input; {STARTED}; {ENDED}; exit 7")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 7, errors
    assert json.loads((tmp_path / "input").read_text())["env"]["MY_TOKEN"] == SECRET
    assert SECRET not in "".join(calls(tmp_path))


def test_an_image_is_fetched_before_the_container_is_made(tmp_path: Path) -> None:
    """One that is not here is pulled, which is said; then the container runs."""
    process = program(tmp_path, has="exit 1", run=f"{STARTED}; {ENDED}; exit 0")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "docker fetches some/image:1" in printed
    assert [line.split()[0] for line in calls(tmp_path)] == ["info", "image", "pull", "run"]


def test_a_signal_ends_the_fetching(tmp_path: Path) -> None:
    """SIGTERM while an image is pulled ends the program with its status, and the pulling."""
    process = program(tmp_path, has="exit 1", pull=f"echo $$ > {tmp_path}/pid; {WAITS}")
    assert process.stderr
    assert "waiting" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_fetch_that_fails_is_told(tmp_path: Path) -> None:
    """The registry's words are the reason, and nothing is run."""
    process = program(tmp_path, has="exit 1", pull="echo 'manifest unknown: manifest unknown' >&2; exit 1")
    printed, _ = process.communicate(timeout=60)
    problem = told(printed)
    assert (problem["what"], problem["exit_code"]) == ("there is no image some/image:1", 1)
    assert process.returncode == 1
    assert not [line for line in calls(tmp_path) if line.startswith("run")]


def test_a_container_that_is_killed_is_told(tmp_path: Path) -> None:
    """What ended before its command did was killed from outside, or ran out of memory; its leftovers are removed."""
    process = program(tmp_path, run=f"{STARTED}; exit 137")
    printed, _ = process.communicate(timeout=60)
    problem = told(printed)
    assert "was killed" in problem["what"]
    assert "1g of memory" in problem["why"]
    assert (process.returncode, problem["exit_code"]) == (3, 3)
    assert calls(tmp_path)[-1].startswith("rm --force primus-r-")


def test_without_primus_the_screen_is_for_people(tmp_path: Path) -> None:
    """A program that somebody started by hand writes its problem to standard error."""
    process = program(tmp_path, run="echo 'docker: unknown flag: --foo' >&2; exit 125", events=False)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error: docker does not know an option that was passed on to it\n" in errors
    assert printed == ""


def test_a_program_whose_starter_is_gone_ends_its_container(tmp_path: Path) -> None:
    """When the process that started it is killed, the container's input ends."""
    starter = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.launchers.test_container_wrapper import STARTED, program
folder = Path({str(tmp_path)!r})
program(folder, run=STARTED + f"; touch {{folder}}/on; cat > /dev/null; touch {{folder}}/over")
while not (folder / "on").exists():
    time.sleep(0.05)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", starter], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    deadline = time.monotonic() + 60
    while not (tmp_path / "over").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_signals_go_to_the_containers_input(tmp_path: Path, number: signal.Signals) -> None:
    """The engine's client gets none, so that none comes twice."""
    second = f'IFS= read -r env; echo waiting >&2; IFS= read -r line; echo "$line" > {tmp_path}/second'
    process = program(tmp_path, run=f"{second}; {STARTED}; {ENDED}; exit 7")
    assert process.stderr
    assert "waiting" in process.stderr.readline()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert json.loads((tmp_path / "second").read_text()) == {"signal": number}
    assert process.returncode == 7
