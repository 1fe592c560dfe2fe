"""Checks of a host before a run, and of each of its nodes: room to write, settings, and what a process may use.

Before the start they concern this host as far as the ranks run here; elsewhere the first rank of each node checks its
own. Nothing is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from primus_core.contract import host
from primus_core.files import nearest_existing
from primus_core.outcome import Finding, Where
from primus_core.plan import ON_THIS_HOST, RunPlan
from primus_core.quantities import memory_size
from primus_core.rundir import RunDir
from primus_preflight.resources import Needs, own_limits, shared_memory, shortages
from primus_preflight.settings.judging import crowded, hidden, judged
from primus_preflight.settings.naming import NAMING

CONTRACT = 1

ENOUGH_BYTES = 5 * 1024**3
"""Below this the check warns: logs fit, a checkpoint of a real model may not."""
LEAST_BYTES = 256 * 1024**2
"""Below this nothing is started."""
_ROOT = Path("/")


@host
def preflight_check(plan: RunPlan, where: Where, env: Mapping[str, str]) -> Sequence[Finding]:
    """What is wrong with the host for this plan; a preflight of nodes looks at them itself."""
    if where is Where.SUBMIT:
        return tuple(_before_the_start(plan, env))
    if where is Where.NODE and plan.task.kind != "preflight" and not _runs_here(plan):
        return tuple(_on_the_node(plan, env))
    return ()


def _before_the_start(plan: RunPlan, env: Mapping[str, str]) -> Iterator[Finding]:
    yield from check_workspace(Path(plan.experiment.workspace if plan.experiment else plan.run_dir))
    if plan.task.kind == "preflight":
        return
    yield from judged(env, plan.target.accelerator, plan.target.nodes)
    if _runs_here(plan):
        yield from _this_host(plan, env)


def _on_the_node(plan: RunPlan, env: Mapping[str, str]) -> Iterator[Finding]:
    """What the submitting host could not see; settings of its own only an image or another host's shell can have."""
    if "container" in (plan.launcher, plan.job.inside) or plan.launcher == "ssh":
        known = set(judged(plan.job.env, plan.target.accelerator, plan.target.nodes))
        found = judged({**plan.job.env, **env}, plan.target.accelerator, plan.target.nodes)
        yield from (finding for finding in found if finding not in known)
    yield from _this_host(plan, env)
    if plan.launcher not in ON_THIS_HOST:
        yield from _scarce(plan, env)


def _scarce(plan: RunPlan, env: Mapping[str, str]) -> Iterator[Finding]:
    """What the projected run lacks here; room for a checkpoint is looked for once, where rank 0 is."""
    from primus_core.report.projected import read_projected  # here: no command needs it
    from primus_core.report.scarce import scarce_here

    projected = read_projected(RunDir(Path(plan.run_dir)))
    if projected is not None:
        first = env.get("RANK") == "0"
        yield from (one for one in scarce_here(projected, plan) if first or one.check != "checkpoint.room")


def _this_host(plan: RunPlan, env: Mapping[str, str]) -> Iterator[Finding]:
    """What the ranks of this host find here."""
    yield from _named(plan, env)
    yield from hidden(env, plan.target.accelerator, plan.target.ranks_per_node)
    yield from shortages({**own_limits(), **shared_memory(_ROOT)}, Needs.of(plan, _ROOT))
    yield from crowded(env, plan.target.ranks_per_node, len(os.sched_getaffinity(0)))


def _named(plan: RunPlan, env: Mapping[str, str]) -> Iterator[Finding]:
    """Settings that name interfaces or devices which are not here."""
    if not any(env.get(name) for name in NAMING):
        return
    import socket  # here: most runs name none

    from primus_preflight.probes.network.rdma import ports
    from primus_preflight.settings.naming import named_devices, named_interfaces

    yield from named_interfaces(env, [name for _, name in socket.if_nameindex()], plan.target.nodes)
    if plan.target.accelerator != "cpu":
        yield from named_devices(env, ports(_ROOT))


def _runs_here(plan: RunPlan) -> bool:
    """Whether the host that starts the run is one of its nodes, and no container is between."""
    return plan.launcher in ("single", "direct")


def check_workspace(workspace: Path) -> Iterator[Finding]:
    """Whether the folder, or the one it will be made in, is writable and has room."""
    folder = nearest_existing(workspace)
    if not folder.is_dir():
        yield _unusable(workspace, f"{folder} is a file, not a folder")
    elif not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        yield _unusable(workspace, f"{folder} is not writable for the user id {os.geteuid()}")
    elif os.statvfs(folder).f_flag & os.ST_RDONLY:
        yield _unusable(workspace, f"the file system of {folder} is mounted read-only")
    else:
        yield from check_space(workspace, folder, shutil.disk_usage(folder).free)


def check_space(workspace: Path, folder: Path, free: int) -> Iterator[Finding]:
    """Judge the free bytes that this user may fill, on the file system of ``folder``."""
    if free >= ENOUGH_BYTES:
        return
    fatal = free < LEAST_BYTES
    yield Finding(
        check="host.disk-space",
        severity="error" if fatal else "warning",
        summary=f"the workspace has {memory_size(free)} left" + (", too little to start" if fatal else ""),
        evidence=f"workspace {workspace}, file system of {folder}; "
        f"warning below {memory_size(ENOUGH_BYTES)}, error below {memory_size(LEAST_BYTES)}",
        remedy="Make room, or set `workspace:` to a folder on another file system.",
        cause="runtime",
    )


def _unusable(workspace: Path, evidence: str) -> Finding:
    return Finding(
        check="host.workspace",
        severity="error",
        summary=f"the workspace {workspace} cannot be written",
        evidence=evidence,
        remedy="Set `workspace:` to a folder that you may write to.",
        cause="runtime",
    )
