"""What it costs to judge and report a preflight of 4,096 nodes of which three are bad: time, memory, and whether they
are found. The nodes' files are written first, as a preflight leaves them."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from attrs import evolve

sys.path.insert(0, str(Path(__file__).parents[1]))

from primus_core.codec import to_json
from primus_preflight.agent.files import ASKED, Measured, write_node
from primus_preflight.gathering import read
from primus_preflight.judging import Limits, judge
from primus_preflight.model import Gathered
from primus_preflight.reporting import screen, write
from tests.preflight.clusters import cluster, host

NODES, SECONDS, MEGABYTES = 4096, 30.0, 1000
BAD = (77, 1234, 3000)


def main() -> int:
    """Returns 1 where it takes too long, too much, or finds others."""
    with tempfile.TemporaryDirectory(prefix="primus-") as name:
        folder = Path(name)
        leave(cluster(NODES, sends={77: 0.25}, computes={1234: 0.6}, missing=[3000]), folder)
        began, cpu = time.monotonic(), time.process_time()
        report = judge(read([folder]), Limits())
        write(report, folder)
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        found = (folder / "failing_nodes.txt").read_text().splitlines()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(screen(report))
    print(f"{NODES:,} nodes read, judged and reported: {seconds:.1f} s ({cpu:.1f} s of CPU), {memory:.0f} MB at most")
    return int(cpu > SECONDS or memory > MEGABYTES or found != [host(node) for node in BAD])


def leave(gathered: Gathered, folder: Path) -> None:
    """Write what the nodes and their coordinator would have written."""
    asked = evolve(gathered, nodes=(), measurements=())
    (folder / ASKED).write_text(to_json(asked), encoding="utf-8")
    for node in gathered.nodes:
        write_node(folder, node)
    measured = Measured(run_id=gathered.run_id, measurements=gathered.measurements, complete=True)
    (folder / "measurements.json").write_text(to_json(measured))


if __name__ == "__main__":
    sys.exit(main())
