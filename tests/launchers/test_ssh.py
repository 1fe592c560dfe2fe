"""Ranks on hosts that are reached by ssh: real servers, on hosts that can be lost."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import frozen

from tests.e2e.support import EXAMPLE, QUICK, ROOT, ends_apart, environment
from tests.golden import check
from tests.testbed import hosts as testbed
from tests.testbed import sshd
from tests.testbed.hosts import Hosts

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(testbed.lacking() or sshd.lacking()), reason=testbed.lacking() or sshd.lacking()),
]

PROGRAM = ("-m", "tests.launchers.ssh_run")
ALL_END = 45.0
"""Seconds until nothing is left, on a machine that is three times as slow as an idle one."""
LOST = 4.0


@frozen(kw_only=True)
class Bed:
    """Hosts with servers; ``node1`` submits, and has one too."""

    hosts: Hosts
    keys: sshd.Keys

    def start(self, folder: Path, names: str, task: str, *options: str) -> subprocess.Popen[str]:
        given = [option if "=" in option else "" for option in options]
        config = [] if any(option.startswith("config=") for option in given) else [f"config={self.keys.config()}"]
        argv = [sys.executable, *PROGRAM, folder, names, task if ":" in task else f"ssh_tasks:{task}", *config, *given]
        return self.hosts.start("node1", argv, env=environment(folder, SHOWN_TOKEN="s3cr3t-value"), cwd=ROOT)

    def run(self, folder: Path, names: str, task: str, *options: str) -> tuple[str, int]:
        process = self.start(folder, names, task, *options)
        printed, errors = process.communicate(timeout=300)
        return printed + errors, process.returncode

    def quiet(self, *names: str, seconds: float = ALL_END) -> None:
        """Nothing but the servers runs on these hosts, soon."""
        end = time.monotonic() + seconds
        while left := {name: said for name in names or self.hosts.names if (said := self._left(name))}:
            assert time.monotonic() < end, f"still running: {left}"
            time.sleep(0.1)

    def _left(self, name: str) -> list[str]:
        return [one for one in self.hosts.processes(name) if "listener" not in one]


def begun(folder: Path, ranks: int, what: str = "here", seconds: float = 240) -> None:
    """Wait until the ranks do their task, and have left a file that says so."""
    end = time.monotonic() + seconds
    while not all((folder / f"exp/runs/r/{what}-{rank}").exists() for rank in range(ranks)):
        assert time.monotonic() < end, "the ranks did not start"
        time.sleep(0.1)


def made(folder: Path, count: int) -> Iterator[Bed]:
    keys = sshd.Keys(folder / "ssh")
    with Hosts(count, folder) as hosts, sshd.servers(hosts, keys, hosts.names):
        yield Bed(hosts=hosts, keys=keys)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    yield from made(tmp_path_factory.mktemp("bed"), 4)


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Bed]:
    """Hosts for one test, which may lose some."""
    yield from made(tmp_path, 3)


SCREENS = {
    "unknown-name": ("no.such.host,node2", [], 3),
    "refused": ("node2:2200,node3", [], 3),
    "no-python": ("node2,node3", ["python=/opt/none/bin/python"], 1),
    "no-primus": ("node2", ["python=/usr/bin/python3"], 1),
    "port-in-use": ("node2,node3", ["master_port=22"], 3),
    "one-machine": ("node2,10.77.0.2", [], 3),
    "unreached-first": ("node2,node3", ["master_addr=10.77.0.77"], 3),
}


@pytest.mark.parametrize("name", SCREENS)
def test_what_keeps_a_host_from_starting_is_named(bed: Bed, tmp_path: Path, name: str) -> None:
    """Before anything is started, the screen says which host cannot, why, and what to do."""
    hosts, options, status = SCREENS[name]
    printed, code = bed.run(tmp_path, hosts, "wait", *options)
    check(printed, f"ssh-{name}", replace={r"(10\.77\.0\.77):\d+": r"\1:<PORT>"})
    assert code == status
    bed.quiet()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("unknown-key", {"UserKnownHostsFile": "/dev/null"}),
        ("denied", {"IdentityFile": "{folder}/other"}),
    ],
)
def test_a_host_that_does_not_let_us_in_is_named(bed: Bed, tmp_path: Path, name: str, changes: dict[str, str]) -> None:
    """ssh never asks: an unknown key and a refused login end the start and name the host."""
    config = bed.keys.config(name, **{key: value.format(folder=bed.keys.folder) for key, value in changes.items()})
    printed, code = bed.run(tmp_path, "node2,node3", "wait", f"config={config}")
    check(printed, f"ssh-{name}")
    assert code == 3
    bed.quiet()


def test_an_ssh_that_hangs_has_a_limit(bed: Bed, tmp_path: Path) -> None:
    """A host that takes the connection and says nothing is named when the time is over."""
    program = "import socket, time; s = socket.create_server(('', 2222)); print('on', flush=True); time.sleep(600)"
    silent = bed.hosts.start("node2", [sys.executable, "-c", program])
    try:
        assert silent.stdout
        assert silent.stdout.readline()
        printed, code = bed.run(tmp_path, "node2:2222,node3", "wait", "connect_seconds=10")
    finally:
        bed.hosts.signal(silent, signal.SIGKILL)
        silent.communicate()
    check(printed, "ssh-hangs")
    assert code == 3
    bed.quiet()


def test_a_host_with_other_versions_is_named(bed: Bed, tmp_path: Path) -> None:
    """A distribution of another version on one host ends the start with both versions."""
    path = importlib.metadata.distribution("primus-launchers")._path / "METADATA"  # type: ignore[attr-defined]  # no other way to it
    other = tmp_path / "METADATA"
    other.write_text(Path(path).read_text().replace("\nVersion: 0.1.0", "\nVersion: 0.0.9"))
    bed.hosts.show("node3", other, path)
    try:
        printed, code = bed.run(tmp_path, "node2,node3", "wait")
    finally:
        bed.hosts.check("node3", ["umount", path])
    check(printed, "ssh-other-versions")
    assert code == 1
    bed.quiet()


def test_a_run_directory_that_is_not_shared_is_named(bed: Bed, tmp_path: Path) -> None:
    """The host that does not see the plan is named; nothing is copied to it."""
    folder = tmp_path / "shared"
    bed.hosts.hide("node3", folder)
    try:
        printed, code = bed.run(folder, "node2,node3", "wait")
        assert bed.hosts.check("node3", ["ls", folder]) == ""
    finally:
        bed.hosts.check("node3", ["umount", folder])
    check(printed, "ssh-not-shared")
    assert code == 3
    bed.quiet()


def test_other_output_has_its_host_and_no_secret(bed: Bed, tmp_path: Path) -> None:
    """What is no event goes to the launcher's log with its host; secrets reach the ranks and no file."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho from $(hostname) >&2\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    printed, code = bed.run(tmp_path, "node2,node3", "talk", f"python={python}")
    assert code == 0, printed
    noise = (tmp_path / "exp/runs/r/submission/host-0.log").read_text().splitlines()
    assert {f"{name}: from {name}" for name in ("node2", "node3")} < set(noise)
    for rank in range(2):
        log = (tmp_path / f"exp/logs/trainer/rank-{rank}/debug.log").read_text()
        assert f"rank {rank} of 2 in {tmp_path}" in log
        assert "***" in log
    files = [path for path in (tmp_path / "exp").rglob("*") if path.is_file()]
    assert not [path for path in files if "s3cr3t-value" in path.read_text(errors="replace")]
    bed.quiet()


def test_a_run_starts_again_on_all_hosts_and_stops_on_all(bed: Bed, tmp_path: Path) -> None:
    """max_restarts starts all hosts again when a rank fails; SIGTERM has the ranks of all save and end with 0."""
    process = bed.start(tmp_path, "node2,node3", "fails_once", "settings.max_restarts=1")
    begun(tmp_path, 2, "again", seconds=300)
    bed.hosts.signal(process, signal.SIGTERM)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, printed + errors
    assert "rank 1 failed: RuntimeError: rank 1 has had enough" in printed
    run = tmp_path / "exp/runs/r"
    assert len({(run / f"saved-{rank}").read_text() for rank in range(2)}) == 1
    assert json.loads((run / "requeue.json").read_text())["signal"] == "SIGTERM"
    bed.quiet()


@pytest.mark.parametrize(("name", "host"), [("together", "node1"), ("remote", "node3")])
def test_a_program_of_the_launcher_that_is_killed(bed: Bed, tmp_path: Path, name: str, host: str) -> None:
    """The screen says which one is gone, and the ranks of all hosts end."""
    process = bed.start(tmp_path, "node2,node3", "wait")
    begun(tmp_path, 2)
    bed.hosts.check(host, ["pkill", "-KILL", "-f", f"m primus_launchers.ssh.{name}"])
    printed, errors = process.communicate(timeout=300)
    shown = [
        line for line in (printed + errors).splitlines() if not line.startswith("    node")
    ]  # as soon as they say it
    if name == "together":  # ranks leave reports, or are gone before
        assert "error: the launcher 'ssh' was killed by SIGKILL" in "\n".join(shown)
    else:
        check("\n".join(shown), "ssh-remote-killed")
    assert process.returncode == 3
    bed.quiet()


def test_a_pasted_dry_run_does_the_same(bed: Bed, tmp_path: Path) -> None:
    """The two commands of a dry run, pasted into the same shell, train on both hosts."""
    argv = [sys.executable, "-m", "primus_core.cli.main", "run", EXAMPLE, *QUICK, "train_iters=1", "--nproc", "1"]
    argv += ["--launcher", "ssh", "--hosts", "node2,node3", f"ssh.config={bed.keys.config()}"]
    argv += ["--dry-run", "--run-id", "pasted"]
    env = environment(tmp_path)
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    dry = bed.hosts.start("node1", argv, env=env, cwd=ROOT)
    shown, errors = dry.communicate(timeout=300)
    assert dry.returncode == 0, errors
    run = tmp_path / "examples/me/llama-tiny/runs/pasted"
    assert not run.exists()
    pasted = "\n".join(shown.strip().splitlines()[-2:])
    done = bed.hosts.start("node1", ["bash", "-c", pasted], env=env, cwd=ROOT)
    printed, errors = done.communicate(timeout=400)
    assert done.returncode == 0, printed + errors
    reports = [json.loads((run / f"ranks/rank-{rank}.json").read_text()) for rank in range(2)]
    assert [(one["host"], one["exit_code"], one["iteration"]) for one in reports] == [("node2", 0, 1), ("node3", 0, 1)]
    bed.quiet()


def test_a_rank_that_fails_ends_all_hosts(bed: Bed, tmp_path: Path) -> None:
    """The other hosts end within 15 s, and the screen names the rank and its host."""
    process = bed.start(tmp_path, "node2,node3,node4", "fail")
    printed, _ = process.communicate(timeout=300)
    assert ends_apart(tmp_path / "exp/runs/r", 3) < 15
    check(printed, "ssh-rank-fails")
    assert process.returncode == 3
    bed.quiet()


def lose(bed: Bed, folder: Path, how: Callable[[str], None]) -> tuple[str, int, float]:
    process = bed.start(folder, "node2,node3", "wait", f"lost_seconds={LOST}")
    begun(folder, 2)
    began = time.monotonic()
    how("node3")
    printed, _ = process.communicate(timeout=120)
    return printed, process.returncode, time.monotonic() - began


def test_a_host_that_crashes_is_named(fragile: Bed, tmp_path: Path) -> None:
    """A host that is gone without a word is named, and the others end."""
    printed, code, seconds = lose(fragile, tmp_path, fragile.hosts.crash)
    check(printed, "ssh-host-crashed")
    assert code == 3
    assert seconds < LOST + ALL_END
    fragile.quiet("node1", "node2")


def test_a_host_that_is_cut_off_is_named_and_ends_its_ranks(fragile: Bed, tmp_path: Path) -> None:
    """Without network both sides end by themselves: the submitting one names the host, which leaves nothing running."""
    printed, code, seconds = lose(fragile, tmp_path, fragile.hosts.cut)
    check(printed, "ssh-host-cut-off")
    assert code == 3
    assert seconds < LOST + ALL_END
    fragile.quiet("node1", "node2")
    end = time.monotonic() + ALL_END
    while ranks := [one for one in fragile.hosts.processes("node3") if "primus" in one]:
        assert time.monotonic() < end, ranks
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_end_of_primus_is_the_end_on_every_host(bed: Bed, tmp_path: Path, number: int) -> None:
    """Killed or interrupted, `primus` leaves nothing running on any host."""
    process = bed.start(tmp_path, "node2,node3", "wait")
    begun(tmp_path, 2)
    bed.hosts.signal(process, number)
    process.communicate(timeout=120)
    bed.quiet()


def losses(workspace: Path) -> list[float]:
    """The losses of the rank that has them."""
    rows = [
        json.loads(line) for file in workspace.rglob("rank-0/metrics.jsonl") for line in file.read_text().splitlines()
    ]
    return [row["loss"] for row in sorted(rows, key=lambda row: row["iteration"]) if row["loss"] is not None]


def test_training_on_several_hosts_has_the_losses_of_one(bed: Bed, tmp_path: Path) -> None:
    """Two hosts with two ranks each and four with one train as one rank alone does."""
    found = []
    for launcher in ("single --nproc 1", "ssh --hosts node1,node2 --nproc 2", "ssh --hosts node1,node2,node3,node4"):
        workspace = tmp_path / launcher.replace(" ", "")
        argv = [sys.executable, "-m", "primus_core.cli.main", "run", EXAMPLE, *QUICK, "global_batch_size=4"]
        argv += ["train_iters=3", f"ssh.config={bed.keys.config()}", "--launcher", *launcher.split()]
        argv += ["--nproc", "1"] if "--nproc" not in launcher else []
        process = bed.hosts.start("node1", argv, env=environment(workspace), cwd=ROOT)
        printed, errors = process.communicate(timeout=400)
        assert process.returncode == 0, printed + errors
        found.append(losses(workspace))
    assert len(found[0]) == 3
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=1e-5)
    bed.quiet()
