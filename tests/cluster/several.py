"""Starting `primus` by hand on each of several hosts, as their user would."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGKILL

from attrs import frozen

from tests.e2e.support import environment
from tests.testbed.hosts import Hosts


@frozen(kw_only=True)
class Said:
    """How `primus` ended on one host."""

    code: int
    out: str
    err: str
    seconds: float
    """Until it, and all that were asked before it, had ended."""

    @property
    def text(self) -> str:
        return self.out + self.err


class Nodes:
    """The same command on the first hosts, each with its own NODE_RANK."""

    def __init__(self, hosts: Hosts, workspace: Path) -> None:
        self.hosts, self.workspace = hosts, workspace
        self.names = hosts.names
        self._processes: list[subprocess.Popen[str]] = []
        self._started = 0.0

    def start(
        self,
        *words: str | Path,
        each: Mapping[int, Mapping[str, str]] | None = None,
        only: Sequence[int] | None = None,
        **env: str,
    ) -> None:
        """Start it on all of them.

        Args:
            only: the numbers of those that are started.
            each: variables of single nodes, by number from 0; they are stronger than ``env``.
        """
        self._started = time.monotonic()
        for number in range(len(self.names)) if only is None else only:
            argv = [sys.executable, "-m", "primus_core.cli.main", *words]
            self._start(number, argv, {**env, **(each or {}).get(number, {})})

    def paste(self, number: int, shown: str, **env: str) -> None:
        """Start the two commands that a dry run has shown on a node, where `primus` is found by its name."""
        pasted = "\n".join([f"PATH={Path(sys.executable).parent}:$PATH", *shown.strip().splitlines()[-2:]])
        self._start(number, ["bash", "-c", pasted], env)

    def _start(self, number: int, argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
        asked = {
            "NODES_WAIT_SECONDS": "120",
            "NNODES": str(len(self.names)),
            "NODE_RANK": str(number),
            "MASTER_ADDR": "node1",
            **env,
        }
        variables = environment(self.workspace, **asked)
        self._processes.append(self.hosts.start(self.names[number], argv, env=variables, cwd=self.workspace.parent))

    def communicate(self, seconds: float = 400) -> Sequence[Said]:
        """Wait for all of them."""
        said = []
        for process in self._processes:
            out, err = process.communicate(timeout=seconds)
            said.append(Said(code=process.returncode, out=out, err=err, seconds=time.monotonic() - self._started))
        self._processes.clear()
        return said

    def end(self) -> Sequence[Said]:
        """Wait for all of them, and for whatever they started."""
        said = self.communicate()
        self.hosts.wait_quiet()
        return said

    def signal(self, number: int, sent: int) -> None:
        """Send a signal to `primus` on the node that was started with this number."""
        self.hosts.signal(self._processes[number], sent)

    def close(self) -> None:
        """End what a test that failed has left."""
        for process in self._processes:
            self.hosts.signal(process, SIGKILL)
            process.communicate()
