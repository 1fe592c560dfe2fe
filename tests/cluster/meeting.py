"""A meeting of agents, one on each of several hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from primus_core.codec import from_json
from primus_preflight.agent.files import Measured
from primus_preflight.model import Measurement, Node
from tests.testbed.hosts import Hosts

OPTIONS: Mapping[str, Any] = {"sizes": [4 << 20], "iterations": 3, "seconds": 30, "join_seconds": 120}


class Meeting:
    """Agents on all hosts, but for those that are left out."""

    def __init__(
        self,
        hosts: Hosts,
        folder: Path,
        tests: Sequence[str],
        *,
        absent: int = -1,
        env: Mapping[int, Mapping[str, str]] | None = None,
        **options: Any,
    ) -> None:
        self.folder = folder
        self.count = len(hosts.names)
        given = json.dumps({**OPTIONS, **options})
        program = [sys.executable, "-m", "tests.testbed.meetings"]
        self.agents = {
            number: hosts.start(
                name,
                [*program, str(number), str(self.count), "node1", "29500", folder, given, *tests],
                env={**os.environ, **(env or {}).get(number, {})},
            )
            for number, name in enumerate(hosts.names)
            if number != absent
        }

    def nodes(self) -> dict[int, Node]:
        """What the agents say at their end."""
        said: dict[int, subprocess.Popen[str]] = self.agents
        found: dict[int, Node] = {}
        for number, agent in said.items():
            output, errors = agent.communicate(timeout=300)
            assert agent.returncode == 0, errors
            found[number] = from_json(Node, output)
            print(found[number].probes, errors)
        return found

    def measurements(self) -> tuple[Measurement, ...]:
        """Those of the largest meeting, so far."""
        texts = [path.read_text() for path in (self.folder / "preflight").glob("measurements*.json")]
        return max((from_json(Measured, text).measurements for text in texts), key=len, default=())

    def wait_for(self, seen: Callable[[Measurement], bool]) -> None:
        deadline = time.monotonic() + 200
        while not any(map(seen, self.measurements())):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def figures(measurements: Sequence[Measurement], test: str) -> dict[tuple[int, ...], float]:
    return {one.nodes: median(one.values) for one in measurements if one.test == test and one.status == "ok"}


def accused(measurements: Sequence[Measurement]) -> set[tuple[str, int, str]]:
    return {(one.test, one.nodes[0], one.status) for one in measurements if len(one.nodes) == 1 and one.status != "ok"}
