"""Having the agents run: on this host by itself, elsewhere by a launcher."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from primus_core.cli.output import say
from primus_core.cli.prepare import Prepared
from primus_core.errors import ExitCode
from primus_core.log.console import topic_line
from primus_core.log.events import Event
from primus_core.nodes.place import Place
from primus_core.outcome import Problem, RankReport
from primus_core.records import frozen
from primus_preflight.agent.alone import run_agent
from primus_preflight.agent.files import folder_of
from primus_preflight.agent.node import BY_HAND
from primus_preflight.gathering import Waiting

if TYPE_CHECKING:
    from primus_core.submit.consoles import Shows  # what starts processes is imported where some are started

_QUEUE = "slurm"
"""The launcher whose nodes come later than it is started; it tells when."""
_SIGNALLED = 128
Outcome = TypeVar("Outcome")


@frozen(kw_only=True)
class Ended:
    """How the start of a preflight ended."""

    hosts: tuple[str, ...] = ()
    """Names of all nodes in the order of their numbers, where a scheduler gave them."""
    said: tuple[str, ...] = ()
    """What is known of nodes that did not do all."""
    problems: tuple[Problem, ...] = ()
    """What the launcher says."""
    exit_code: int = ExitCode.OK
    """Of the launcher; means something where no node has answered."""
    code: int | None = None
    """Of the whole command where there is nothing to judge here."""


def started(prepared: Prepared, console: Shows | None, waiting: Waiting, *, silent: bool) -> Ended:
    """Run the agents to their end, or until it is enough.

    Raises:
        PrimusError: they cannot be started.
    """
    if prepared.submission.detached:
        return _handed_over(prepared, silent=silent)
    if prepared.plan.launcher in BY_HAND:
        return _here(prepared, prepared.place, waiting)
    return _elsewhere(prepared, console, waiting)


def _handed_over(prepared: Prepared, *, silent: bool) -> Ended:
    from primus_core.cli.submitting import hand_over_plan  # here: most preflights are waited for

    code = hand_over_plan(prepared, silent=silent)
    say(topic_line("report", f"{folder_of(prepared.plan)}/report.md, when the job has ended"))
    return Ended(code=code)


def _here(prepared: Prepared, place: Place | None, waiting: Waiting) -> Ended:
    """The agent of this host; of several nodes the first one waits for all."""
    plan = prepared.plan
    env = {**prepared.env, **plan.job.env, **_meeting_point(place)}
    number = place.rank if place else 0
    waiting.begin()
    failure = run_agent(plan, number, env, lambda topic, text: _tell(topic, text), waiting.enough)
    said = (f"node {number} ({socket.gethostname()}): {failure}",) if failure else ()
    if place is None:
        return Ended(said=said)
    if not place.leads:
        for line in said:
            say(topic_line("agent", line))
        return Ended(code=ExitCode.RUNTIME if said else ExitCode.OK)
    waiting.for_all(plan.target.nodes)
    return Ended(said=said)


def _meeting_point(place: Place | None) -> dict[str, str]:
    if place is None:
        return {}
    return {"MASTER_ADDR": place.address, "MASTER_PORT": str(place.port), "NODES_WAIT_SECONDS": str(place.wait)}


def _tell(topic: str, text: str) -> None:
    say(topic_line(topic, text))


def _elsewhere(prepared: Prepared, console: Shows | None, waiting: Waiting) -> Ended:
    from primus_core.submit import submit  # here: one host needs no launcher

    hearing = Hearing(console or _console(prepared), waiting.begin)
    if prepared.plan.launcher != _QUEUE:
        waiting.begin()
    report = submit(prepared.submission, prepared.plan, env=prepared.env, console=hearing, peers=_Apart(waiting.enough))
    return Ended(
        hosts=hearing.hosts,
        said=(*map(_problem, report.launcher_problems), *(_failure(one) for one in report.ranks if one.exit_code)),
        problems=report.launcher_problems,
        exit_code=report.exit_code,
        code=report.exit_code if report.exit_code > _SIGNALLED and not waiting.over else None,
    )


def _console(prepared: Prepared) -> Shows:
    import sys

    from primus_core.submit.console import Console

    return Console.on(sys.stdout, prepared.env)


def _problem(problem: Problem) -> str:
    return ": ".join(filter(None, (problem.what, problem.why.replace("\n", "; "))))


def _failure(rank: RankReport) -> str:
    why = rank.failure.text if rank.failure else rank.signal or f"exit code {rank.exit_code}"
    return f"node {rank.rank} ({rank.host}): the agent failed: {why}"


class _Apart:
    """Of `primus_core.submit.peers.Peers`: nodes of which none ends because of another, and that have a limit."""

    leads = True
    number = 0
    lost: tuple[Problem, ...] = ()

    def __init__(self, enough: Callable[[], bool]) -> None:
        self.trouble = enough

    def begin(self) -> None:
        """Nobody to wait for."""

    def conclude(self, judge: Callable[[], tuple[Outcome, int, bool]]) -> tuple[Outcome, bool]:
        return judge()[0], False


class Hearing:
    """A console that also hears which nodes a scheduler has given.

    Args:
        given: is told when it has.
    """

    def __init__(self, console: Shows, given: Callable[[], None]) -> None:
        self._console, self._given = console, given
        self.hosts: tuple[str, ...] = ()
        self.line: Callable[[str], None] = console.line
        self.tick: Callable[[], None] = console.tick
        self.close: Callable[[], None] = console.close

    def event(self, event: Event) -> None:
        if event.get("kind") == "nodes":
            self.hosts = tuple(map(str, event["hosts"]))
            self._given()
        else:
            self._console.event(event)
