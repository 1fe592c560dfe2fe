"""What an agent does in a meeting of its own, and where it cannot come to one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.codec import from_json
from primus_core.ports import free_port
from primus_preflight.model import Node, Probe
from tests.preflight.sick import preflight

_LISTENED = """\
import sys
from pathlib import Path
from tests.testbed.meetings import main
sys.addaudithook(lambda event, found: event == "socket.bind" and print(found[1][0], file=sys.stderr, flush=True))
main(int(sys.argv[1]), int(sys.argv[2]), "", sys.argv[3], Path(sys.argv[4]), '{"join_seconds": 1}', [])
"""


def met(folder: Path, number: int, nodes: int, port: str) -> tuple[Probe, str]:
    """How a node says that its meeting went, and the addresses at which it waited for others."""
    argv = [sys.executable, "-c", _LISTENED, str(number), str(nodes), port, str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return from_json(Node, done.stdout).probes[-1], done.stderr


@pytest.mark.parametrize("port", ["", "29500"])
def test_a_node_alone_is_heard_by_nobody_else(tmp_path: Path, port: str) -> None:
    """It waits at its loopback alone, at any port, whatever MASTER_PORT says."""
    probe, waited_at = met(tmp_path, 0, 1, port)
    assert (probe.status, probe.error) == ("ok", "")
    assert set(waited_at.split()) == {"127.0.0.1"}


@pytest.mark.parametrize("port", ["", "x", "70000"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_meeting_without_a_port(tmp_path: Path, port: str, number: int) -> None:
    """Each of several nodes says that it cannot find the others, and why."""
    probe, _ = met(tmp_path, number, 2, port)
    assert (probe.status, probe.error) == ("error", f"MASTER_PORT is {port!r}, and no port where the nodes could meet")


def test_a_node_that_finds_nobody_says_so(tmp_path: Path) -> None:
    """Started by hand, and node 0 is not there: who looks at this node learns that the others miss it."""
    done = preflight(
        tmp_path,
        *("--host", "--run-id=check"),
        NNODES="2",
        NODE_RANK="1",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(free_port("127.0.0.1")),
        NODES_WAIT_SECONDS="1",
    )
    assert done.code == 0, done.text
    assert "node 0, at which the nodes meet: 127.0.0.1:" in done.text
    assert "cannot be reached: Connection refused" in done.text
