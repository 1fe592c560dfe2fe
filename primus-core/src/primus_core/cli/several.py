"""A run whose nodes the user starts one by one: this one's part."""

from __future__ import annotations

import hashlib
import platform
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import evolve

from primus_core.apart import APART
from primus_core.cli.output import say
from primus_core.cli.prepare import Prepared
from primus_core.cli.run import experiment_of, headline, submit_plan, tell_model, write_plan
from primus_core.codec import from_json
from primus_core.errors import ExitCode
from primus_core.files import write_atomic
from primus_core.log.console import topic_line
from primus_core.nodes.facts import Facts
from primus_core.nodes.guest import Guest
from primus_core.nodes.leader import Leader
from primus_core.nodes.offer import Offer
from primus_core.nodes.place import Place
from primus_core.plan import RunPlan
from primus_core.planning.refusals import refuse_used
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
        tell_model(prepared)  # before the others start, for it may end the run
        path = RunDir(Path(prepared.plan.run_dir)).plan
        leader.announce(_offer(prepared, path))
        return submit_plan(prepared, console, silent=silent, peers=leader)


def _follow(prepared: Prepared, place: Place, console: Shows | None, *, silent: bool) -> int:
    facts = _facts(prepared.plan, place)
    with Guest(place, facts, _say) as guest:
        run_id, digest = guest.told()
        rundir = RunDir(Path(prepared.plan.run_dir).parent / run_id)
        seen = _appears(rundir.plan, digest)
        guest.ready(sees_plan=seen, is_named=place.port_is_given and prepared.plan.run_id == run_id)
        if not seen:
            _keep_apart(guest, rundir)
            prepared = evolve(prepared, env={**prepared.env, APART: "1"})
        plan = from_json(RunPlan, rundir.plan.read_text(encoding="utf-8"), source=str(rundir.plan))
        say(headline(plan))
        code = submit_plan(_at(prepared, plan, place), console, silent=silent, peers=guest)
        say(topic_line("ended", "well" if code == ExitCode.OK else f"with {code}: node 0 tells why"))
        return code


def _offer(prepared: Prepared, path: Path) -> Offer:
    return Offer(
        run_id=prepared.plan.run_id,
        folder=path.parent,
        plan=path,
        text=path.read_text(encoding="utf-8"),
        digest=_digest(path),
        shared=_saved_to(prepared),
    )


def _saved_to(prepared: Prepared) -> tuple[str, ...]:
    """Where the run saves checkpoints, if it does."""
    native = prepared.plan.translation.native if prepared.plan.translation else {}
    folder = native.get(prepared.hosts.portable_keys().get("save", "save"))
    return (folder,) if isinstance(folder, str) and "://" not in folder else ()


def _keep_apart(guest: Guest, rundir: RunDir) -> None:
    """Write the plan into a run directory that this node alone sees.

    Raises:
        PrimusError: node 0 says why there is no run, or there was one of this name here.
    """
    text, signs = guest.given()
    refuse_used(rundir)
    try:
        write_atomic(rundir.plan, text)
        rundir.point_latest()
    except OSError as error:
        raise rundir.unwritable(error) from None
    unseen = [str(Path(sign).parent) for sign in signs if not _soon(Path(sign).exists)]
    guest.kept(rundir.path, _digest(rundir.plan), unseen)
    _say("no folder is shared: logs and reports of this node's ranks stay here, node 0 has all reports")


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
    return _soon(lambda: path.exists() and _digest(path) == digest)


def _soon(seen: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _SEEN_SECONDS
    while not (found := seen()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found
