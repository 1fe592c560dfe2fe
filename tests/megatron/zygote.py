"""A process that has imported torch and patched Megatron once, and forks ranks from that state on request.

It applies every patch that there is; a rank takes back what its own plan lacks.

Started by `ranks.py`; one JSON request a line on standard input, one JSON answer a line on standard output:
``{"plan": ..., "folder": ..., "world": 2, "entry": "module:function", "kill": "pattern"}`` ->
``{"codes": [...]}``. A rank's output goes to ``folder/rank-N.txt``, what it reports to ``folder/rank-N.jsonl``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from primus_core.codec import from_json
from primus_core.patching import Applied, apply_patches, verify
from primus_core.plan import RunPlan

warnings.simplefilter("ignore")


class Rank:
    """A rank's context that writes everything it is told to a file of JSON lines."""

    def __init__(
        self,
        rank: int,
        world: int,
        folder: Path | None,
        prepared: dict[str, Any] | None = None,
        kill: str | None = None,
    ) -> None:
        self.rank = self.local_rank = rank
        self.world_size = world
        self.env = dict(os.environ)
        self._file = (folder / f"rank-{rank}.jsonl").open("a") if folder else None
        self._prepared = prepared or {}
        self._kill = kill
        self._told = ""
        self.phases: list[str] = []

    def _write(self, kind: str, **values: object) -> None:
        if self._file:
            line = json.dumps({"kind": kind, **values}, default=str) + "\n"
            self._file.write(line)
            self._file.flush()
            self._told += line
            if self._kill and re.search(self._kill, self._told, re.DOTALL):
                os.kill(os.getpid(), signal.SIGKILL)

    def phase(self, name: str) -> None:
        if self.phases[-1:] != [name]:
            self.phases.append(name)
            self._write("phase", name=name)

    def metrics(self, row: dict[str, object]) -> None:
        self._write("metrics", **row)

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        self._write("progress", what=what, done=done, total=total, unit=unit)

    def log(self, level: str, event: str, **values: object) -> None:
        self._write("record", level=level, event=event, **values)

    def notice(self, topic: str, text: str) -> None:
        self._write("notice", topic=topic, text=text)

    def prepared(self, name: str) -> dict[str, Any]:
        return dict(self._prepared[name])


_LIBRARIES = ("megatron", "torchtitan")


def take_back(applied: Applied, plan: RunPlan) -> None:
    """Undo the patches that a plan lacks, also where the library copied the new attribute while it was imported."""
    planned = {spec.id for spec in plan.translation.patches} if plan.translation else set()
    patched = [(change.location.owner, change.location.name) for change in applied.changes]
    for change in applied.changes:
        if change.id in planned:
            continue
        change.location.restore()
        for module in [module for name, module in sys.modules.items() if name.startswith(_LIBRARIES)]:
            copies = [name for name, value in vars(module).items() if value is change.stored]
            for name in [name for name in copies if (module, name) not in patched]:
                setattr(module, name, change.location.original)


def child(request: dict[str, Any], rank: int, applied: Applied) -> int:
    folder = Path(request["folder"])
    out = os.open(folder / f"rank-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    world = request["world"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(request["port"]))
    plan = from_json(RunPlan, request["plan"])
    take_back(applied, plan)
    os.environ.update(plan.translation.environment if plan.translation else {})
    context = Rank(rank, world, folder, request.get("prepared"), request.get("kill") if rank == 0 else None)
    module, _, name = request["entry"].partition(":")
    try:
        result = getattr(importlib.import_module(module), name)(plan, context)
    except BaseException as error:  # noqa: BLE001  # reported to the test, whatever it is
        traceback.print_exc()
        fields = {key: str(getattr(error, key, "")) for key in ("what", "where", "why", "remedy")}
        context._write("error", type=type(error).__name__, text=str(error), **fields)
        return 1
    context._write("result", value=result)
    return 0


def serve(request: dict[str, Any], applied: Applied) -> dict[str, Any]:
    pids = []
    for rank in range(request["world"]):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            code = child(request, rank, applied)
            sys.stdout.flush()
            os._exit(code)
        pids.append(pid)
    return {"codes": _ended(pids)}


def _ended(pids: list[int]) -> list[int]:
    """The exit codes of all ranks. When one has failed, the others fail of it, or wait for it for ever."""
    codes: dict[int, int] = {}
    while len(codes) < len(pids):
        pid, status = os.wait()
        codes[pid] = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # helpers that a rank left behind
        if codes[pid] != 0:
            # The others fail by themselves, unless this one was killed to see what is left.
            time.sleep(0 if codes[pid] < 0 else 0.3)
            for other in set(pids) - set(codes):
                os.kill(other, signal.SIGKILL)
    return [codes[pid] for pid in pids]


def main() -> None:
    plan = from_json(RunPlan, sys.stdin.readline())
    start = time.perf_counter()
    import torch

    imported = time.perf_counter()
    torch.set_num_threads(1)
    report = apply_patches(plan, Rank(0, 1, None))
    verify(plan, report)
    ledger = [result.id for result in report.results]
    for late in ("megatron.core.dist_checkpointing.strategies.torch", "megatron.training.argument_utils"):
        importlib.import_module(late)
    times = {"torch": imported - start, "patching": time.perf_counter() - imported}
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in _answers(answer, {"ready": ledger, "seconds": times}):
        _say(answer, serve(json.loads(line), report))


def _answers(answer: Any, first: dict[str, Any]) -> Any:
    _say(answer, first)
    return sys.stdin


def _say(answer: Any, what: dict[str, Any]) -> None:
    answer.write(json.dumps(what) + "\n")
    answer.flush()


if __name__ == "__main__":
    main()
