"""The hosts that other tests run on are hosts: with a name, an address, processes and a cable of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed.hosts import Hosts

pytestmark = pytest.mark.cluster

PROBE = """\
import socket, sys
with socket.create_connection((sys.argv[1], 7), timeout=float(sys.argv[2])) as one:
    print(one.recv(100).decode())
"""
SERVER = """\
import socket
with socket.create_server(("", 7)) as server:
    print("ready", flush=True)
    while True:
        one, _ = server.accept()
        one.sendall(socket.gethostname().encode())
        one.close()
"""


def reaches(hosts: Hosts, name: str, address: str, seconds: int = 20) -> str:
    """What the server of an address says to a host in so many seconds."""
    process = hosts.start(name, [sys.executable, "-c", PROBE, address, str(seconds)])
    return process.communicate(timeout=120)[0].strip()


def test_hosts_are_apart_and_meet(make_hosts: Callable[[int], Hosts]) -> None:
    """Each knows itself and the others by name; a cut cable, a crash and a healed one are what they say."""
    hosts = make_hosts(3)
    assert [hosts.check(name, ["hostname"]).strip() for name in hosts.names] == list(hosts.names)
    server = hosts.start("node2", [sys.executable, "-c", SERVER])
    assert server.stdout
    assert server.stdout.readline() == "ready\n"
    assert [reaches(hosts, name, "node2") for name in ("node1", "node2", "node3")] == ["node2"] * 3
    assert reaches(hosts, "node1", "node2.cluster.test") == "node2"
    assert [len(hosts.processes(name)) for name in hosts.names] == [0, 1, 0]
    hosts.cut("node2")
    assert reaches(hosts, "node1", "node2", 1) == ""
    hosts.heal("node2")
    assert reaches(hosts, "node1", "node2") == "node2"
    hosts.crash("node2")
    server.communicate(timeout=60)
    hosts.boot("node2")
    assert reaches(hosts, "node1", "node2", 1) == ""
    hosts.wait_quiet()


def test_a_folder_may_be_a_hosts_own(make_hosts: Callable[[int], Hosts], tmp_path: Path) -> None:
    """Files are shared, but for a folder that is hidden from a host."""
    hosts, folder = make_hosts(2), tmp_path / "shared"
    folder.mkdir()
    (folder / "file").touch()
    hosts.hide("node2", folder)
    assert [hosts.check(name, ["ls", folder]) for name in hosts.names] == ["file\n", ""]


def test_a_program_of_a_host_gets_signals(make_hosts: Callable[[int], Hosts]) -> None:
    """A signal reaches the program itself, and its status comes back."""
    hosts = make_hosts(1)
    process = hosts.start("node1", ["bash", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"])
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    hosts.signal(process, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 7


def test_hosts_end_with_whoever_made_them(tmp_path: Path) -> None:
    """A killed process leaves no host behind."""
    code = f"""
import sys, time
from pathlib import Path
from tests.testbed.hosts import Hosts
with Hosts(2, Path({str(tmp_path)!r})) as hosts:
    print(*hosts.pids(), flush=True)
    time.sleep(600)
"""
    maker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert maker.stdout
    pids = maker.stdout.readline().split()
    maker.kill()
    maker.communicate()
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pids
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
