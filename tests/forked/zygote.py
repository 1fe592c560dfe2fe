"""A process that has imported torch and patched a library once, and forks ranks from that state on request.

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
from tests.forked.context import Rank


def serve(*modules: str) -> None:
    """Be this process: patch by the plan in the first line, then answer requests until there are no more.

    Args:
        modules: what every rank would import on its own, once the patches are in place.
    """
    warnings.simplefilter("ignore")
    applied = _patched(from_json(RunPlan, sys.stdin.readline()), modules)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, {"applied": [result.id for result in applied.results]})
    for line in sys.stdin:
        _say(answers, {"codes": _run(json.loads(line), applied)})
    os._exit(0)  # taking down an interpreter that has imported torch lasts seconds


def _patched(plan: RunPlan, modules: tuple[str, ...]) -> Applied:
    import torch

    torch.set_num_threads(1)
    applied = apply_patches(plan, Rank(0, 1, None))
    verify(plan, applied)
    for module in modules:
        importlib.import_module(module)
    verify(plan, applied)
    return applied


def _say(answers: Any, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def _run(request: dict[str, Any], applied: Applied) -> list[int]:
    """The exit codes of fresh ranks."""
    pids = []
    for rank in range(request["world"]):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            code = _child(request, rank, applied)
            sys.stdout.flush()
            os._exit(code)
        pids.append(pid)
    return _ended(pids)


def _child(request: dict[str, Any], rank: int, applied: Applied) -> int:
    folder = Path(request["folder"])
    out = os.open(folder / f"rank-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    world = request["world"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(request["port"]))
    plan = from_json(RunPlan, request["plan"])
    _take_back(applied, plan)
    os.environ.update(plan.translation.environment if plan.translation else {})
    context = Rank(rank, world, folder, request.get("prepared"), request.get("kill") if rank == 0 else None)
    module, _, name = request["entry"].partition(":")
    try:
        result = getattr(importlib.import_module(module), name)(plan, context)
    except BaseException as error:  # noqa: BLE001  # reported to the test, whatever it is
        traceback.print_exc()
        fields = {key: str(getattr(error, key, "")) for key in ("what", "where", "why", "remedy")}
        context.write("error", type=type(error).__name__, text=str(error), **fields)
        return 1
    context.write("result", value=result)
    return 0


def _take_back(applied: Applied, plan: RunPlan) -> None:
    """Undo the patches that a plan lacks, also where the library copied the new attribute while it was imported."""
    planned = {spec.id for spec in plan.translation.patches} if plan.translation else set()
    patched = [(change.location.owner, change.location.name) for change in applied.changes]
    library = str(plan.framework)
    for change in applied.changes:
        if change.id in planned:
            continue
        change.location.restore()
        for module in [module for name, module in sys.modules.items() if name.startswith(library)]:
            copies = [name for name, value in vars(module).items() if value is change.stored]
            for name in [name for name in copies if (module, name) not in patched]:
                setattr(module, name, change.location.original)


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
