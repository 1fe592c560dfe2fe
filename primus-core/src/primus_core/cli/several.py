"""A run whose nodes the user starts one by one: this one's part."""

from __future__ import annotations

import hashlib
import platform
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.cli.output import say
from primus_core.cli.prepare import Prepared
from primus_core.cli.run import experiment_of, headline, submit_plan, write_plan
from primus_core.codec import from_json
from primus_core.errors import ExitCode
from primus_core.log.console import topic_line
from primus_core.nodes import Facts, Guest, Leader, Place
from primus_core.nodes.leader import not_shared
from primus_core.plan import RunPlan
from primus_core.ports import free_port
from primus_core.rundir import RunDir
from primus_core.submit.consoles import Shows

_SEEN_SECONDS = 5.0
"""How long a file that node 0 has written may take to appear on another node of one file system."""
_POLL_SECONDS = 0.1


def start_one_of_several(
    prepared: Prepared, place: Place, env: Mapping[str, str], console: Shows | None, *, silent: bool
) -> int:
    """Meet the other nodes, and do this node's part; returns the exit code of the run.

    Raises:
        PrimusError: the nodes do not come together.
    """
    if place.leads:
        return _lead(prepared, place, env, console, silent=silent)
    return _follow(prepared, place, console, silent=silent)


def _lead(prepared: Prepared, place: Place, env: Mapping[str, str], console: Shows | None, *, silent: bool) -> int:
    with Leader(place, _facts(prepared.plan, place)) as leader, experiment_of(prepared.plan, env):
        ranks_meet = free_port()  # the port where the nodes meet stays taken
        prepared = _at(prepared, prepared.plan, place, master_port=ranks_meet)
        say(headline(prepared.plan))
        leader.gather(_say)
        write_plan(prepared)
        path = RunDir(Path(prepared.plan.run_dir)).plan
        leader.announce(prepared.plan.run_id, str(path), _digest(path))
        return submit_plan(prepared, console, silent=silent, peers=leader)


def _follow(prepared: Prepared, place: Place, console: Shows | None, *, silent: bool) -> int:
    facts = _facts(prepared.plan, place)
    with Guest(place, facts, _say) as guest:
        run_id, digest = guest.told()
        path = RunDir(Path(prepared.plan.run_dir).parent / run_id).plan
        seen = _appears(path, digest)
        guest.ready(seen)
        if not seen:
            raise not_shared(facts.name, str(path))
        plan = from_json(RunPlan, path.read_text(encoding="utf-8"), source=str(path))
        say(headline(plan))
        code = submit_plan(_at(prepared, plan, place), console, silent=silent, peers=guest)
        say(topic_line("ended", "well" if code == ExitCode.OK else f"with {code}: node 0 tells why"))
        return code


def _say(text: str) -> None:
    say(topic_line("nodes", text))


def _facts(plan: RunPlan, place: Place) -> Facts:
    library = {plan.framework: plan.target.library_version} if plan.framework else {}
    return Facts(
        rank=place.rank,
        nodes=place.nodes,
        host=socket.gethostname(),
        accelerator=plan.target.accelerator,
        ranks_per_node=plan.target.ranks_per_node,
        python=platform.python_version(),
        versions={**plan.distributions, **library},
        folder=str(RunDir(Path(plan.run_dir)).experiment),
    )


def _at(prepared: Prepared, plan: RunPlan, place: Place, **options: int) -> Prepared:
    """The plan as this node starts it."""
    told = {**plan.job.options, "node_rank": place.rank, "master_addr": place.address, **options}
    plan = evolve(plan, job=evolve(plan.job, options=told))
    return evolve(prepared, plan=plan, submission=prepared.hosts.launch(plan.job))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _appears(path: Path, digest: str) -> bool:
    """Whether this node sees the file that node 0 has written."""
    deadline = time.monotonic() + _SEEN_SECONDS
    while time.monotonic() < deadline:
        if path.exists() and _digest(path) == digest:
            return True
        time.sleep(_POLL_SECONDS)
    return False
