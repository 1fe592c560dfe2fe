"""Somebody who hands runs to the Slurm of the testbed, and waits for what becomes of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.e2e.support import EXAMPLE, environment
from tests.testbed.slurm import Slurm, primus

SMALL = (
    "accelerator=cpu", "micro_batch_size=1", "global_batch_size=2", "seq_length=64", "eval_interval=null",
    "save_interval=10",
)  # fmt: skip
ITERATIONS = 40
LONG = 300
"""Seconds until a training on a busy machine has come to where a test waits for it."""

PROGRAM = """\
import os, sys, time
rank = int(os.environ["RANK"])
open(os.path.join(sys.argv[2], f"up-{os.environ['SLURM_JOB_ID']}-{rank}"), "w").close()
if sys.argv[1] == "fails" and rank == 1:
    print("a plain word of rank 1", flush=True)
    sys.exit(3)
taken = [b"x" * (1 << 20) for _ in range(800 if sys.argv[1] == "eats" else 0)]
time.sleep(0.1 if sys.argv[1] == "ends" else 600)
"""

Losses = dict[int, float]


@frozen
class Account:
    """Of somebody on the login host, with a folder that all nodes see."""

    slurm: Slurm
    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def losses(self) -> Losses:
        found: Losses = {}
        for file in self.workspace.glob("*/*/*/logs/*/rank-*/metrics.jsonl"):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            found.update({row["iteration"]: row["loss"] for row in rows if row["loss"] is not None})
        return found


class User(Account):
    """Somebody who hands in jobs."""

    def primus(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = environment(self.workspace)
        return self.slurm.run(primus(*words), env=env, cwd=cwd or self.folder)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start `primus` and look after it yourself."""
        return self.slurm.start(primus(*words), env=environment(self.workspace), cwd=self.folder)

    def submit(self, *words: str | Path) -> str:
        """The number of the job."""
        done = self.primus("slurm", "sbatch", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        found = re.search(r"^job +(\d+)$", done.stdout, re.MULTILINE)
        assert found, done.stdout
        return found[1]

    def train(self, framework: str, *flags: str, iterations: int = ITERATIONS) -> str:
        words = ("train", "pretrain", "--config", EXAMPLE, "--framework", framework, *SMALL)
        return self.submit("-N2", "--gpus-per-node=1", *flags, "--", *words, f"train_iters={iterations}")

    def program(self, what: str, *flags: str) -> str:
        """A job of two nodes, unless flags say otherwise, whose ranks are a program."""
        return self.submit("-N2", "--gpus-per-node=1", *flags, "--", *self.script(what))

    def script(self, what: str) -> tuple[str | Path, ...]:
        """The words behind the dashes for a rank that does this; see `PROGRAM`."""
        path = self.folder / "program.py"
        path.write_text(PROGRAM)
        return ("direct", "--script", path, "--", what, self.folder)

    def wait_up(self, job: str, ranks: int = 2) -> None:
        """All ranks of the program run."""
        ups = [self.folder / f"up-{job}-{rank}" for rank in range(ranks)]
        self.slurm.wait(lambda: all(up.exists() for up in ups), f"ranks of job {job}", LONG)

    def status(self, run: str) -> Any:
        done = self.primus("status", run, "--format", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def printed(self, job: str) -> str:
        """What the job itself printed."""
        return next(self.workspace.glob(f"*/*/*/runs/*/submission/slurm-{job}.out")).read_text()


@contextmanager
def leaving_nothing(slurm: Slurm, folder: Path) -> Iterator[User]:
    """Leaves no process on any node."""
    yield User(slurm, folder)
    slurm.restore()

    def left() -> list[str]:
        return [one for name in slurm.nodes for one in slurm.hosts.processes(name) if "slurmd" not in one]

    # what manages a step outlives its job by a moment
    slurm.wait(lambda: not left(), "the end of all processes")


@contextmanager
def unbroken(user: User, framework: str) -> Iterator[Callable[[], Losses]]:
    """A run of as many ranks on one host that nobody disturbs, beside what else is done; gives its losses."""
    alone = User(user.slurm, user.folder / "alone")
    alone.folder.mkdir()
    words = ("run", EXAMPLE, "--framework", framework, "--nproc", "2", *SMALL, f"train_iters={ITERATIONS}")
    process = user.slurm.start(primus(*words), env=environment(alone.workspace), cwd=alone.folder)

    def losses() -> Losses:
        out, err = process.communicate(timeout=LONG)
        assert process.returncode == 0, out + err
        return alone.losses()

    try:
        yield losses
    finally:
        process.kill()
        process.communicate()


def reach(user: User, iteration: int) -> None:
    user.slurm.wait(lambda: max(user.losses(), default=0) >= iteration, f"iteration {iteration}", LONG)
