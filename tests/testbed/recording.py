"""Records of preflights of healthy hosts, made here: ``python -m tests.testbed.recording FOLDER [NAME ...]``, as root.

Each is the report.json of a live run on hosts in namespaces, without what names this machine; every fault that they
are judged to have later is one of the judge.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from primus_core.codec import from_json, to_json
from primus_core.records import frozen
from primus_preflight.judging import Report
from primus_preflight.meeting.joining import own_machine
from primus_preflight.probes.network.addresses import is_loopback, own_addresses
from tests.cluster.several import Nodes
from tests.preflight.sick import run_folder
from tests.testbed.hosts import NETWORK, Hosts


@frozen(kw_only=True)
class Scene:
    """Healthy hosts and what is asked of them."""

    words: tuple[str, ...]
    hosts: int = 4
    rate: str = ""
    """Of each host's link, as `tc` writes it; empty: as fast as this machine is."""
    load: int = 0
    """Processes that compute all the while."""


SCENES = {
    "quick-400mbit": Scene(words=("--quick",), rate="400mbit"),
    "quick-400mbit-busy": Scene(words=("--quick",), rate="400mbit", load=1),
    "quick-1gbit": Scene(words=("--quick",), rate="1gbit"),
    "quick-six-hosts": Scene(words=("--quick",), hosts=6, rate="200mbit"),
    "all-tests-400mbit": Scene(words=("--perf-test",), rate="400mbit"),
    "all-tests-100mbit": Scene(words=("--perf-test", "--sizes=1M", "--gemm-size=512"), hosts=3, rate="100mbit"),
    "all-tests-two-hosts-busy": Scene(words=("--perf-test", "--sizes=4M"), hosts=2, rate="400mbit", load=1),
    "transfers-1gbit": Scene(words=("--tests=inter-p2p,inter-ring-p2p,inter-alltoall",), rate="1gbit"),
    "single": Scene(words=("--perf-test",), hosts=1),
    "single-two-ranks-busy": Scene(words=("--perf-test", "--ranks-per-node=2"), hosts=1, load=1),
}


def record(scene: Scene, folder: Path) -> Report:
    """The report of a live run."""
    with Hosts(scene.hosts, folder) as hosts, _busy(scene.load):
        for name in hosts.names:
            hosts.check(name, ["mount", "-t", "sysfs", "sysfs", "/sys"])  # with this host's own interfaces
            if scene.rate:
                hosts.limit(name, scene.rate)
        nodes = Nodes(hosts, folder / "out")
        nodes.start("preflight", *scene.words, "--run-id=recorded", MASTER_PORT="29500")
        said = nodes.end()
    path = run_folder(folder / "out") / "report.json"
    assert (path.exists(), {one.code for one in said} <= {0, 3}) == (True, True), said
    return from_json(Report, _anonymous(path.read_text(encoding="utf-8")))


def _anonymous(text: str) -> str:
    """Without this machine's name, kernel and addresses."""
    addresses = [one for each in own_addresses().values() for one in each if not is_loopback(one)]
    told = {
        own_machine(): "machine",
        platform.release(): "6.1.0",
        socket.gethostname(): "node1",
        **dict.fromkeys(addresses, f"{NETWORK}.1"),
    }
    for real, made_up in told.items():
        text = text.replace(f'"{real}"', f'"{made_up}"')
    return text


@contextlib.contextmanager
def _busy(processes: int) -> Iterator[None]:
    running = [subprocess.Popen(["bash", "-c", "while :; do :; done"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def main(target: Path, names: list[str]) -> None:
    for name in names or SCENES:
        with tempfile.TemporaryDirectory(prefix="primus-") as folder:
            os.chmod(folder, 0o755)
            report = record(SCENES[name], Path(folder))
        path = target / name / "report.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(report, indent=None) + "\n", encoding="utf-8")
        print(name, report.verdict, *(f"\n  {one.level} {one.nodes} {one.evidence}" for one in report.faults))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
