"""A third party's check of a node, installed for a test, and `primus preflight` with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from primus_core.codec import from_json
from primus_preflight.model import Node, Probe
from tests.e2e.support import environment

NAME = "sick of sick-check"
"""Of its look."""
_SOURCE = """\
import os, signal, time
from primus_core.contract import host
from primus_core.outcome import Finding, Where
CONTRACT = 1
@host
def preflight_check(plan, where, env):
    node = env.get("RANK", "") if plan.target.nodes > 1 else "0"
    if where is not Where.NODE or node not in env.get("SICK_NODES", "0").split(","):
        return ()
    how = env.get("SICK", "well")
    if how == "hangs":
        time.sleep(600)
    elif how == "crashes":
        os.abort()
    elif how == "tells nothing":
        os._exit(0)
    elif how == "kills the agent":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    elif how == "raises":
        raise ValueError("what is this?")
    elif how == "raises a secret":
        raise ValueError(env["SICK_TOKEN"])
    elif how == "prints a secret":
        print("login with", os.environ["SICK_TOKEN"], flush=True)
        os._exit(0)
    elif how == "finds a secret":
        texts = {name: f"{name} {env['SICK_TOKEN']}" for name in ("summary", "evidence", "remedy", "where")}
        return (Finding(check="sick", severity="error", **texts),)
    elif how == "finds":
        return (Finding(check="sick", severity="error", summary="a cold", evidence="it coughs", remedy="Tea."),)
    return ()
"""


def install(folder: Path) -> Path:
    """A folder for PYTHONPATH with the check."""
    info = folder / "sick_check-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sick-check\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[primus.preflight]\nsick = sick_check\n")
    (folder / "sick_check.py").write_text(_SOURCE)
    return folder


@frozen(kw_only=True)
class Done:
    """How `primus preflight` ended."""

    code: int
    text: str
    cpu_seconds: float
    """Of the command and of all that it started."""


def preflight(workspace: Path, *words: str, path: Sequence[Path] = (), **env: str) -> Done:
    """Run it on this host to its end."""
    found = {**environment(workspace, **env), "PYTHONPATH": os.pathsep.join(map(str, path))}
    argv = [sys.executable, "-m", "primus_core.cli.main", "preflight", *words]
    with subprocess.Popen(argv, env=found, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        text = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Done(code=process.returncode, text=text, cpu_seconds=usage.ru_utime + usage.ru_stime)


def run_folder(workspace: Path) -> Path:
    """Of the last preflight in a workspace."""
    (latest,) = workspace.glob("*/*/*/runs/latest")
    return latest / "preflight"


def node(workspace: Path, number: int = 0) -> Node:
    """What a node has written."""
    path = run_folder(workspace) / f"node-{number}.json"
    return from_json(Node, path.read_text(encoding="utf-8"), source=str(path))


def probe(seen: Node, name: str = NAME) -> Probe:
    (found,) = (one for one in seen.probes if one.name == name)
    return found
