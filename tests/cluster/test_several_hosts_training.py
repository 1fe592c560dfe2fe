"""Training on two hosts, each started by hand: stops, restarts and hangs are those of one host."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import golden
from tests.cluster.several import Nodes
from tests.e2e.support import EXAMPLE, QUICK, trainer, wait_until
from tests.testbed.hosts import Hosts

pytestmark = pytest.mark.cluster

ENDLESS = ("run", EXAMPLE, *QUICK, "train_iters=100000")
TITAN = (*ENDLESS, "framework=torchtitan")
FOLDER = "examples/me/llama-tiny"
SHOWN = {
    r"iteration \d+(?! of)": "iteration <N>",
    r"all_reduce\w*|allgather\w*|reduce_scatter\w*|all_gather\w*": "<COLLECTIVE>",
    r"#\d+": "#<N>",
    r"input \[\[[^\n]*?\]\](?=$|\n|;)": "input <SHAPES>",
    r"rank 0 waits at [^\n]*; phase": "rank 0 waits at <PLACE>; phase",
}

MakeNodes = Callable[[int], Nodes]


@pytest.fixture
def nodes(make_hosts: Callable[[int], Hosts], tmp_path: Path) -> Iterator[Nodes]:
    both = Nodes(make_hosts(2), tmp_path / "workspace")
    yield both
    both.close()


def losses(workspace: Path) -> dict[int, float]:
    """Of all starts, by iteration; complete lines only, for the run may go on."""
    found = {}
    for file in workspace.glob(f"{FOLDER}/logs/*/rank-*/metrics.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        found.update({row["iteration"]: row["loss"] for row in rows if row["loss"] is not None})
    return found


def wait_for_iteration(workspace: Path, iteration: int) -> None:
    wait_until(lambda: max(losses(workspace), default=0) >= iteration, f"iteration {iteration}", 400)


def report(workspace: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((workspace / FOLDER / "runs/latest/report.json").read_text())
    return content


def test_torchtitan_starts_again_and_stops_on_two_hosts(nodes: Nodes, tmp_path: Path) -> None:
    """A rank that is killed has both nodes start again, from what was saved; SIGTERM to node 0 has both save and end.

    The workspace is not shared, only the folder of the checkpoints is. The losses are those of one host that was left
    in peace.
    """
    nodes.hosts.hide("node2", nodes.workspace)
    saving = (f"save={tmp_path / 'shared'}", "save_interval=2", "max_restarts=1")
    nodes.start(*TITAN, "--nproc", "1", *saving, "--run-id", "apart", MASTER_PORT="29555")
    wait_for_iteration(nodes.workspace, 3)
    os.kill(trainer(nodes.workspace, 1), signal.SIGKILL)
    wait_until(lambda: list(nodes.workspace.glob(f"{FOLDER}/runs/latest/attempts/1/report.json")) != [], "restart", 400)
    last = max(losses(nodes.workspace))
    wait_for_iteration(nodes.workspace, last + 3)
    nodes.signal(0, signal.SIGTERM)
    ended = nodes.end()
    assert [one.code for one in ended] == [0, 0], "".join(one.text for one in ended)
    assert "rank 1 failed: somebody killed it (SIGKILL)" in ended[0].text
    stopped = report(nodes.workspace)
    assert (stopped["stopped"], stopped["attempt"]) == ("SIGTERM", 2)
    asked = json.loads((nodes.workspace / FOLDER / "runs/latest/requeue.json").read_text())
    assert asked["iteration"] == max(losses(nodes.workspace))
    assert asked["checkpoint"].endswith(f"step-{asked['iteration']}")
    alone = Nodes(nodes.hosts, tmp_path / "alone")
    alone.start(*TITAN, "--nproc", "2", only=(0,), NNODES="1", MASTER_ADDR="")
    wait_for_iteration(alone.workspace, last + 3)
    alone.signal(0, signal.SIGINT)
    assert [one.code for one in alone.end()] == [130]
    found, known = losses(nodes.workspace), losses(alone.workspace)
    assert [found[step] for step in range(1, last + 4)] == pytest.approx(
        [known[step] for step in range(1, last + 4)], rel=1e-5
    )


def test_a_signal_to_one_node_has_all_of_them_save(nodes: Nodes) -> None:
    """SIGUSR1 to the second host, as when it alone is taken away: both end with 0 after the same iteration, saved."""
    nodes.start(*ENDLESS, "--nproc", "1", "save_interval=100000")
    wait_for_iteration(nodes.workspace, 2)
    nodes.signal(1, signal.SIGUSR1)
    ended = nodes.end()
    assert [one.code for one in ended] == [0, 0], "".join(one.text for one in ended)
    last = max(losses(nodes.workspace))
    asked = json.loads((nodes.workspace / FOLDER / "runs/latest/requeue.json").read_text())
    assert (asked["signal"], asked["iteration"]) == ("SIGUSR1", last)
    saved = nodes.workspace / FOLDER / f"checkpoints/iter_{last:07d}"
    assert sorted(path.name for path in saved.glob("*.distcp"))


def test_a_hang_on_a_node_with_files_of_its_own(nodes: Nodes) -> None:
    """TorchTitan's rank 1 stands still on the other host: both find out about it, also without a shared folder."""
    nodes.hosts.hide("node2", nodes.workspace)
    words = ("--run-id", "apart", "hang_timeout_seconds=5", "--nproc", "1")
    nodes.start(*TITAN, *words, MASTER_PORT="29555")
    wait_for_iteration(nodes.workspace, 2)
    os.kill(trainer(nodes.workspace, 1), signal.SIGSTOP)
    first, second = nodes.end()
    assert (first.code, second.code) == (3, 3), first.text + second.text
    golden.check(first.out[first.out.index("error: ") :], "hang-torchtitan-two-hosts", replace=SHOWN)
