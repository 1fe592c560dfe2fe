"""What ranks in a container do for a test. They run in the container, so the standard library is all there is."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from primus_core.contract.specs import RankContext
from primus_core.plan import RunPlan


def look(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Tell what the rank sees, and leave a file in the run's folder."""
    mine = Path(plan.run_dir, f"mine-{rank.rank}")
    mine.touch()
    return {
        "env": {name: _shown(name, rank.env.get(name)) for name in rank.env["SHOWN"].split()},
        "cwd": os.getcwd(),
        "host": socket.gethostname(),
        "ids": [os.getuid(), os.getgid()],
        "refused": [path for path in rank.env["REFUSED"].split(":") if not _writes(Path(path))],
        "seen": [path for path in rank.env["SEEN"].split(":") if os.path.exists(path)],
    }


def _shown(name: str, value: str | None) -> str | None:
    """A secret would be masked in the report."""
    return f"{len(value)} characters" if value and name.endswith("_TOKEN") else value


def _writes(folder: Path) -> bool:
    try:
        (folder / "written").touch()
    except OSError:
        return False
    return True


def wait(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Say that the rank is there, and stay."""
    Path(plan.run_dir, f"here-{rank.rank}").touch()
    time.sleep(600)
    return {}


def fail(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 ends with a status of its own; the others wait."""
    if rank.rank == 1:
        os._exit(7)
    time.sleep(600)
    return {}


def eat(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Take more memory than there is."""
    taken = []
    while True:
        taken.append(bytearray(1 << 24))
