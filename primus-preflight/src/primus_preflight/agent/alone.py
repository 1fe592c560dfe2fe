"""The agent in a process that the command forks, where no launcher is needed: the node is this host."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from primus_core import linux
from primus_core.cli.output import complain
from primus_core.contract import Store
from primus_core.plan import RunPlan
from primus_preflight.agent import node
from primus_preflight.agent.ending import ended

_NAP = 0.01
_GRACE_SECONDS = 3.0


class Alone:
    """What the agent is given instead of a rank's context: nobody else listens to it."""

    local_rank = 0

    def __init__(self, rank: int, nodes: int, env: Mapping[str, str], say: Callable[[str, str], None]) -> None:
        self.rank = rank
        self.world_size = nodes
        place = {"RANK": str(rank), "WORLD_SIZE": str(nodes), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        self.env: Mapping[str, str] = MappingProxyType({**env, **place})
        self._say = say

    def phase(self, name: str) -> None:
        """Told in no report."""

    def metrics(self, row: Mapping[str, object]) -> None:
        """A look at a node has none."""

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Too short to be told."""

    def log(self, level: str, event: str, **values: object) -> None:
        if level in ("warning", "error"):
            self._say(level, event)

    def notice(self, topic: str, text: str) -> None:
        self._say(topic, text)

    def should_stop(self, iteration: int, store: Store) -> bool:
        return False

    def prepared(self, name: str) -> Mapping[str, object]:
        return {}


def run_agent(
    plan: RunPlan, number: int, env: Mapping[str, str], say: Callable[[str, str], None], enough: Callable[[], bool]
) -> str:
    """Run the agent of this host to its end.

    Must be called where no other thread runs: it forks.

    Args:
        number: of this node.
        env: of the agent.
        say: takes a topic and what is told of it.
        enough: whether to wait no longer.

    Returns:
        How it failed; empty where it did not.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(plan, Alone(number, plan.target.nodes, env, say))
    try:
        status = _wait(pid, enough)
    finally:
        _end(pid)
    if status is None:
        return "the agent had to be ended"
    code = os.waitstatus_to_exitcode(status)
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"the agent {how}" if code else ""


def _child(plan: RunPlan, rank: Alone) -> None:
    """The forked process: never returns to the code of its parent."""
    code = 1
    try:
        linux.die_with_parent(signal.SIGKILL)
        os.setpgid(0, 0)
        os.environ.update(rank.env)  # for programs that looks run, and for plugins
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that it ends what it started
        node.run(plan, rank)
        code = 0
    except Exception:  # noqa: BLE001 - the end of the process: its parent tells that it failed, and this why
        import traceback  # here: dear, and for what fails alone

        complain(traceback.format_exc(), rank.env)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(pid: int, enough: Callable[[], bool]) -> int | None:
    """The status of the agent; None where it has not ended when it is enough."""
    while not enough():
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(_NAP)
    return None


def _end(pid: int) -> None:
    """End what is left of it: first in good order."""
    for number, seconds in ((signal.SIGTERM, _GRACE_SECONDS), (signal.SIGKILL, _GRACE_SECONDS)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        try:
            ended(pid, seconds)
        except ChildProcessError:
            return
