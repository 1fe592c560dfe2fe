"""The lock of an experiment among several hosts that share its folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.test_lock import HOLD
from tests.testbed.hosts import Hosts

pytestmark = pytest.mark.cluster


def test_another_host_is_refused_until_the_holder_is_gone(make_hosts: Callable[[int], Hosts], tmp_path: Path) -> None:
    """It is told on which host the run goes on; when that host has crashed, the lock ends a minute later."""
    hosts, runs = make_hosts(2), tmp_path / "exp/runs"
    argv = [sys.executable, "-c", HOLD]
    first = hosts.start("node1", [*argv, runs / "first"])
    assert first.stdout
    assert first.stdout.readline() == "held\n"
    second = hosts.start("node2", [*argv, runs / "second"])
    _, errors = second.communicate("", timeout=120)
    assert second.returncode == 1
    assert "another run is going on in this experiment" in errors
    assert "on node1, since" in errors
    hosts.crash("node1")
    first.wait(timeout=120)  # an end of its input before it is killed would let it give the lock back
    first.communicate()
    refused = hosts.start("node2", [*argv, runs / "second"])
    assert refused.communicate("", timeout=120)[0] == ""  # nobody here can know yet
    lock, minute_ago = tmp_path / "exp/lock.json", time.time() - 61
    assert "node1" in lock.read_text()
    os.utime(lock, (minute_ago, minute_ago))
    third = hosts.start("node2", [*argv, runs / "third"])
    assert third.communicate("", timeout=120)[0] == "held\n"
    assert not lock.exists()
