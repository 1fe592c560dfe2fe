"""The first process of a container, as a process of this host: what it is told from outside, and what it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from primus_core.log.events import decode
from primus_core.testing.launcher import NASTY

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
WAIT = """
import signal, sys, time
def say(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number != signal.SIGUSR1:
        sys.exit(5)
for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, say)
print("here", flush=True)
time.sleep(120)
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(120)
"""


class Inside:
    """The process, and what it is told."""

    def __init__(self, program: str) -> None:
        argv = [sys.executable, "-m", "primus_launchers.container.inside", sys.executable, "-c", program]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, **message: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().decode().rstrip("\n")

    def end(self) -> tuple[int, Sequence[str]]:
        """Its status and what it still said, without the end of its input."""
        assert self.process.stdout
        rest = self.process.stdout.read().decode().removesuffix("\n").split("\n")
        return self.process.wait(30), rest


def state(line: str) -> tuple[Any, Any]:
    event = decode(line.encode())
    assert event
    return event["state"], event.get("status")


@pytest.fixture
def waiting() -> Inside:
    """A command that says which signals it gets."""
    inside = Inside(WAIT)
    assert state(inside.hear()) == ("started", None)
    inside.say(env={})
    assert inside.hear() == "here"
    return inside


def test_variables_come_by_the_input_as_they_are() -> None:
    """Blanks, quotes, dollars, line breaks and other scripts are intact; what the image set stays."""
    inside = Inside(SHOW)
    inside.say(env={f"NASTY_{number}": word for number, word in enumerate(NASTY)})
    assert state(inside.hear()) == ("started", None)
    found = json.loads(inside.hear())
    assert [found[f"NASTY_{number}"] for number in range(len(NASTY))] == list(NASTY)
    assert found["PATH"] == os.environ["PATH"]
    status, rest = inside.end()
    assert (status, [state(line) for line in rest]) == (0, [("ended", 0)])


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_the_commands_status_is_its_own(ending: str, status: int) -> None:
    """A command that dies of a signal has the status that shells give it."""
    inside = Inside(f"import os, sys; {ending}")
    inside.say(env={})
    found, rest = inside.end()
    assert found == status
    assert state(rest[-1]) == ("ended", status)


def test_signals_reach_the_command(waiting: Inside) -> None:
    """Those that the program outside sends, and those that an engine sends to the container's first process."""
    waiting.say(signal=signal.SIGUSR1)
    assert waiting.hear() == "SIGUSR1"
    waiting.process.send_signal(signal.SIGTERM)
    assert waiting.hear() == "SIGTERM"
    assert waiting.end()[0] == 5


def test_a_signal_that_comes_before_the_command_is_not_lost() -> None:
    """It waits in the input until there is somebody who gets it."""
    inside = Inside(WAIT)
    inside.say(env={})
    inside.say(signal=signal.SIGTERM)
    status, _ = inside.end()
    assert status in (5, 128 + signal.SIGTERM)


def test_the_end_of_the_input_ends_the_command(waiting: Inside) -> None:
    """Nobody listens any more: the command is asked to end."""
    assert waiting.process.stdin
    waiting.process.stdin.close()
    assert waiting.hear() == "SIGQUIT"
    assert waiting.end()[0] == 5


@pytest.mark.slow
def test_a_command_that_does_not_end_is_left_behind_by_the_container() -> None:
    """The first process ends after a while all the same, and with it the container."""
    inside = Inside(STUBBORN)
    inside.say(env={})
    assert state(inside.hear()) == ("started", None)
    command = int(inside.hear())
    assert inside.process.stdin
    inside.process.stdin.close()
    assert inside.process.wait(30) == 137
    os.kill(command, signal.SIGKILL)


def test_nothing_is_started_for_nobody() -> None:
    """An input that ends before it began starts nothing."""
    inside = Inside("print('never')")
    assert inside.process.stdin
    inside.process.stdin.close()
    status, rest = inside.end()
    assert status == 131
    assert len(rest) == 1
