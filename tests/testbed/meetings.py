"""An agent that does nothing but attend a meeting: ``python -m tests.testbed.meetings NODE NODES ADDRESS PORT FOLDER``.

Further arguments: the performance options as JSON, and the tests. It prints its node as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

from attrs import evolve

from primus_core.codec import to_json
from primus_core.contract import RankContext
from primus_core.experiment import Value
from primus_core.plan import Job, RunPlan, Target, Task
from primus_preflight.agent.files import folder_of, write_node
from primus_preflight.meeting import meet
from primus_preflight.model import Node


class Rank:
    """As much of a rank's context as a meeting needs."""

    def __init__(self, rank: int, nodes: int, address: str, port: str) -> None:
        self.rank, self.world_size = rank, nodes
        self.env = MappingProxyType({"MASTER_ADDR": address, "MASTER_PORT": port})


def make_plan(folder: Path, options: Mapping[str, Value]) -> RunPlan:
    """A plan that has no more than a meeting reads."""
    task = Task(kind="preflight", entry="", arguments={"performance": dict(options)}, runner="plain")
    job = Job(run_id="meeting", name="meeting", task=task, python=sys.executable, argv=())
    target = Target(accelerator="cpu", library_version="", ranks_per_node=1)
    return RunPlan(run_id="meeting", run_dir=str(folder), target=target, task=task, job=job, launcher="direct")


def main(number: int, nodes: int, address: str, port: str, folder: Path, options: str, tests: list[str]) -> None:
    plan = make_plan(folder, json.loads(options))
    rank = cast("RankContext", Rank(number, nodes, address, port))
    node = Node(node=number, host=socket.gethostname())
    write_node(folder_of(plan), node)
    met = meet(plan, rank, node, tests, lambda found: write_node(folder_of(plan), found))
    write_node(folder_of(plan), evolve(met, complete=True))
    print(to_json(evolve(met, started=0.0), indent=None))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], Path(sys.argv[5]), sys.argv[6], sys.argv[7:])
