"""What every test is held to: it leaves no variable, thread or process behind; and the ranks that tests share."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.megatron.ranks import Ranks as MegatronRanks
    from tests.torchtitan.ranks import Ranks as TitanRanks

_QUIET_SECONDS = 15.0
"""How long a test's own helpers may take to end."""


def pytest_configure() -> None:
    """What tests start gets signals as from a terminal, though the tests themselves run in the background: commands
    inherit what is ignored, and no handlers."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Fails a test that leaks environment variables, threads or child processes."""
    environment, threads, children = dict(os.environ), set(threading.enumerate()), _children()
    yield
    changed = {
        name
        for name in {*environment, *os.environ} - {"PYTEST_CURRENT_TEST"}
        if environment.get(name) != os.environ.get(name)
    }
    os.environ.clear()
    os.environ.update(environment)
    assert not changed, f"environment variables changed: {sorted(changed)}"
    _wait(lambda: not _children(children) and not (set(threading.enumerate()) - threads))
    assert not (left := _children(children)), f"child processes left: {left}"
    assert not set(threading.enumerate()) - threads, f"threads left: {set(threading.enumerate()) - threads}"


@pytest.fixture(scope="session")
def ranks() -> Iterator[MegatronRanks]:
    """Forks real ranks on the CPU; importing torch and Megatron is paid once."""
    from tests.megatron.ranks import Ranks

    with Ranks() as started:
        yield started


@pytest.fixture(scope="session")
def titan_ranks() -> Iterator[TitanRanks]:
    """Forks real ranks on the CPU; importing torch and TorchTitan is paid once."""
    from tests.torchtitan.ranks import Ranks

    with Ranks() as started:
        yield started


def _children(known: Container[int] = ()) -> dict[int, str]:
    """Those that are not known, with their commands, which a process may change: sshd does."""
    pids = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    return {pid: _command(pid) for pid in pids if pid not in known}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return "ended"


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _QUIET_SECONDS
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
