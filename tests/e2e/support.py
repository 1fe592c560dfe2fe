"""Helpers of the end-to-end tests: the example, its quick variant, and the processes of a run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/llama-tiny.yaml"

Primus = Callable[..., "subprocess.CompletedProcess[str]"]

QUICK = (
    "train_iters=4",
    "eval_interval=null",
    "save_interval=null",
    "micro_batch_size=1",
    "global_batch_size=2",
    "seq_length=64",
)
"""Overrides of the example for tests that are not about training itself."""


def environment(workspace: Path, **more: str) -> dict[str, str]:
    """This process's environment without what could change a run, and the test's workspace."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PRIMUS_", "MASTER_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "PRIMUS_WORKSPACE": str(workspace), **more}


def processes(workspace: Path) -> Iterator[tuple[int, list[str], dict[str, str]]]:
    """Process id, command line and environment of each live process that was started with this workspace."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            variables = (folder / "environ").read_text().split("\0")
            command = (folder / "cmdline").read_text().split("\0")[:-1]
        except (OSError, UnicodeDecodeError):
            continue
        env = dict(pair.partition("=")[::2] for pair in variables if pair)
        if env.get("PRIMUS_WORKSPACE") == str(workspace) and command:
            yield int(folder.name), command, env


def trainer(workspace: Path, rank: int) -> int:
    """Process id of the process that trains as this rank: the child of the rank's parent process."""
    parents = {
        pid: env for pid, command, env in processes(workspace) if "primus_core.rank" in command and "RANK" in env
    }
    for pid, env in parents.items():
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if parent in parents and env["RANK"] == str(rank):
            return pid
    raise AssertionError(f"no process trains as rank {rank}")


def wait_until(reached: Callable[[], bool], what: str, seconds: float = 300, *, every: float = 0.05) -> None:
    """Look every so many seconds whether a condition is met; fails when it is not met in time."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"{what}: not in {seconds} s"
        time.sleep(every)


def no_process_left(workspace: Path) -> None:
    """Fails unless every process of a run ends within 15 s."""
    wait_until(lambda: not list(processes(workspace)), "end of all processes", 15)


def ends_apart(run: Path, ranks: int) -> float:
    """Seconds between the first and the last end of the ranks of a run, by their own reports."""
    reports = [json.loads((run / f"ranks/rank-{rank}.json").read_text()) for rank in range(ranks)]
    ends = [float(one["ended"]) for one in reports]
    return max(ends) - min(ends)
