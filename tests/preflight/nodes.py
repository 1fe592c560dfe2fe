"""Nodes to look at: a folder with the files of the kernel that a test needs, and a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from primus_core.plan import Accelerator, Job, RunPlan, Target, Task, TaskKind
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Unavailable

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    """What a real tool printed, without what names a machine."""
    return (RECORDED / name).read_text(encoding="utf-8")


def plan(
    nodes: int = 1, accelerator: Accelerator = "cpu", ranks_per_node: int = 1, kind: TaskKind = "preflight"
) -> RunPlan:
    task = Task(kind=kind, entry="x:y", runner="plain")
    return RunPlan(
        run_id="r",
        run_dir="/nonexistent/runs/r",
        target=Target(accelerator=accelerator, library_version="1", ranks_per_node=ranks_per_node, nodes=nodes),
        task=task,
        job=Job(run_id="r", name="n", task=task, python="python", argv=()),
        launcher="direct",
    )


def files(root: Path, contents: Mapping[str, str]) -> Path:
    """Write files below a folder that stands for ``/``."""
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


def node(
    root: Path, env: Mapping[str, str] | None = None, programs: Mapping[str, str] | None = None, nodes: int = 1
) -> Looked:
    """A node with these files, on which these programs print what is given, by the beginning of their arguments."""
    return Looked(plan=plan(nodes), env=env or {}, root=root, run=_printing(programs or {}))


def _printing(programs: Mapping[str, str]) -> Callable[[Sequence[str], float], str]:
    def run(argv: Sequence[str], seconds: float) -> str:
        line = " ".join(argv)
        for begin, output in programs.items():
            if line.startswith(begin):
                return output
        raise Unavailable(f"the program {argv[0]} is not installed")

    return run
