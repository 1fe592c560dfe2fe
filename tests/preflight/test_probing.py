"""A look is taken in a process of its own: whatever it does, the node's other looks are told."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from primus_core.outcome import Finding
from primus_preflight.agent.looked import run_program
from primus_preflight.agent.probing import Look, Outcome, Unavailable, probe_all
from primus_preflight.model import Probe
from tests.e2e.support import wait_until
from tests.preflight.held import held

FINDING = Finding(check="host.test", severity="warning", summary="too little")


def probe(take: Callable[[], Outcome], seconds: float = 10.0) -> Probe:
    """The look between two that work, which must be told whatever it does."""
    well = Look(name="well", group="host", take=lambda: Outcome(facts={"a": 1}))
    before, told, after = probe_all([well, Look(name="test", group="gpu", device=3, take=take, seconds=seconds), well])
    assert before.status == after.status == "ok"
    assert (told.name, told.group, told.device) == ("test", "gpu", 3)
    return told


def test_what_it_saw_is_told() -> None:
    """Facts and findings arrive as they were, however many."""
    facts = {"long": "x" * 300_000, "list": [1, {"b": None}]}
    told = probe(lambda: Outcome(facts=facts, findings=(FINDING,)))
    assert (told.status, told.facts, told.findings, told.error) == ("ok", facts, (FINDING,), "")


def test_nothing_to_look_at_is_no_fault() -> None:
    """It is unavailable, with what is missing."""

    def take() -> Outcome:
        raise Unavailable("no RDMA devices")

    told = probe(take)
    assert (told.status, told.error) == ("unavailable", "no RDMA devices")


def test_one_that_raises_is_an_error() -> None:
    """The exception's type and text are told."""
    told = probe(lambda: Outcome(facts={"a": int("x")}))
    assert told.status == "error"
    assert told.error.startswith("ValueError: invalid literal for int()")


def test_one_that_hangs_is_killed_at_its_limit(tmp_path: Path) -> None:
    """With what it started; it is told as such."""
    note = tmp_path / "pid"

    def take() -> Outcome:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        note.write_text(str(child.pid))
        child.wait()
        return Outcome()

    began = time.monotonic()
    told = probe(take, seconds=0.5)
    assert (told.status, told.error) == ("timeout", "no answer within 0.5 s")
    assert time.monotonic() - began < 5
    assert not _lives(int(note.read_text()))


def test_one_that_ignores_signals_is_killed() -> None:
    """Nothing that a look does makes it outlive its limit."""

    def take() -> Outcome:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)

    assert probe(take, seconds=0.3).status == "timeout"


@pytest.mark.parametrize(
    ("tells", "error"),
    [(False, "no answer within 1 s; its process"), (True, "it told what it saw, and did not end; its")],
)
def test_one_that_cannot_be_killed_is_left_behind(tmp_path: Path, tells: bool, error: str) -> None:
    """A process that does not end when it is killed, as in a driver that hangs, costs seconds, and is told."""
    note = tmp_path / "pids"

    def take() -> Outcome:
        note.write_text(f"{os.getpid()} {held().pid}")
        if not tells:
            time.sleep(600)
        return Outcome()

    began = time.monotonic()
    told = probe(take, seconds=1.0)
    took = time.monotonic() - began
    look, holder = map(int, note.read_text().split())
    os.kill(holder, signal.SIGKILL)
    os.waitpid(look, 0)
    assert told.status == "timeout"
    assert told.error.startswith(error)
    assert f" {look} cannot be killed" in told.error
    assert took < 8


def test_looks_die_with_their_agent(tmp_path: Path) -> None:
    """With the programs that they run: what kills the agent leaves nothing on the node."""
    note = tmp_path / "pids"
    agent = os.fork()
    if agent == 0:

        def take() -> Outcome:
            run_program(["sh", "-c", f"echo {os.getpid()} $$ >{note}.new; mv {note}.new {note}; exec sleep 600"], 600)
            return Outcome()

        probe_all([Look(name="test", group="host", take=take, seconds=600)])
        os._exit(0)
    wait_until(note.exists, "the program of the look")
    os.kill(agent, signal.SIGKILL)
    os.waitpid(agent, 0)
    wait_until(lambda: not any(map(_lives, map(int, note.read_text().split()))), "the end of both", 15)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGTRAP), "killed by SIGTRAP, and told nothing"),
        (lambda: os._exit(7), "ended with exit code 7, and told nothing"),
        (lambda: os._exit(0), "ended with exit code 0, and told nothing"),
        (
            lambda: os.write(2, b"oh\nno driver\n") and os._exit(1),
            "ended with exit code 1, and told nothing: no driver",
        ),
    ],
)
def test_one_that_tells_nothing_is_an_error(end: Callable[[], object], error: str) -> None:
    """Whether it crashes or ends well: no answer is never a pass."""

    def take() -> Outcome:
        end()
        return Outcome()

    told = probe(take)
    assert (told.status, told.error) == ("error", error)


def test_an_answer_that_is_cut_is_an_error() -> None:
    """A process that was killed while it told what it saw has told nothing."""

    known = _pipes()

    def take() -> Outcome:
        for number in _pipes() - known:
            with contextlib.suppress(OSError):  # one that is only read
                os.write(number, b'{"name": "te')
        os._exit(0)

    told = probe(take)
    assert (told.status, told.error) == ("error", "half an answer")


def test_looks_are_taken_at_the_same_time() -> None:
    """Four that wait for a second each take less than four seconds."""

    def take() -> Outcome:
        time.sleep(1)
        return Outcome()

    began = time.monotonic()
    told = probe_all([Look(name="slow", group="network", take=take)] * 4)
    assert [one.status for one in told] == ["ok"] * 4
    assert time.monotonic() - began < 3.9


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _pipes() -> set[int]:
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the folder's own
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                found.add(number)
    return found
