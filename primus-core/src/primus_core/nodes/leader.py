"""Node 0: the others come to it, it says what is run, and it has the last word."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from primus_core.errors import ConfigError, PrimusError, RunError
from primus_core.nodes.board import answer
from primus_core.nodes.facts import Facts, differences
from primus_core.nodes.knock import knock
from primus_core.nodes.line import GREETING, Line, LostError
from primus_core.nodes.listening import listen_as_first
from primus_core.nodes.mirror import Mirror, is_for_guests
from primus_core.nodes.offer import Offer, shown
from primus_core.nodes.place import Place
from primus_core.nodes.told import as_error, as_message
from primus_core.outcome import Problem

_HELLO_SECONDS = 5.0
_READY_SECONDS = 60.0
_REFUSE_SECONDS = 3.0

Outcome = TypeVar("Outcome")


class Leader:
    """Waits for the other nodes; a context that tells them of whatever ends it.

    Raises, when it is made:
        ConfigError: MASTER_ADDR is not this host's.
        RunError: the port is in use.
    """

    leads = True
    number = 0

    def __init__(self, place: Place, facts: Facts) -> None:
        self._place, self._facts = place, facts
        try:
            self._listener = listen_as_first(place, facts)
        except PrimusError as error:  # nobody can come and be told
            if isinstance(error, ConfigError):  # this is not the host where node 0 is expected; who is there?
                knock(place.address, place.port, facts.to_json())
            answer(facts.folder, place.nodes - 1, error)
            raise
        self._lines: dict[int, Line] = {}
        self._known: dict[int, Facts] = {}
        self._refused: list[Line] = []
        self._ended: set[int] = set()
        self._lost: dict[int, str] = {}
        self._apart: dict[int, Line] = {}
        """The nodes that have a run directory of their own."""
        self._mirror: Mirror | None = None

    def __enter__(self) -> Leader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._ended:
            self._refuse(error)
        for line in (*self._lines.values(), *self._refused):
            line.close()
        self._listener.close()

    @property
    def lost(self) -> tuple[Problem, ...]:
        """The nodes that were lost while the run went on."""
        remedy = "see whether that host and its network are up, and what `primus` said there"
        return tuple(
            Problem(what=f"{self._known[rank].name} was lost", why=how, remedy=remedy)
            for rank, how in sorted(self._lost.items())
        )

    def gather(self, say: Callable[[str], None]) -> None:
        """Wait until all nodes are here.

        Raises:
            ConfigError: one does not fit to the others.
            RunError: one did not come in time.
        """
        deadline = time.monotonic() + self._place.wait
        say(f"waiting for {self._place.nodes - 1} more at {self._place.address}:{self._place.port}")
        while len(self._lines) < self._place.nodes - 1:
            if time.monotonic() > deadline:
                raise self._absent()
            self._accept(say)
            for rank, line in self._lines.items():
                if line.lost:
                    raise RunError(f"{self._known[rank].name} left before the start", why=line.lost)

    def announce(self, offer: Offer) -> None:
        """Tell the others what is run, and make sure that they see it, or give it to those that have other folders.

        Raises:
            ConfigError: a node does not see the plan, and this run needs that it does.
            PrimusError: a node cannot take part.
        """
        for line in self._lines.values():
            line.send(run=offer.run_id, digest=offer.digest)
        said = {rank: self._hear(rank) for rank in self._lines}
        self._apart = {rank: self._lines[rank] for rank, told in said.items() if not told.get("ready")}
        for rank in self._apart:
            if not (said[rank].get("named") and self._place.port_is_given):
                raise offer.not_shared(self._known[rank].name)
        if self._apart:
            self._give(offer)

    def _give(self, offer: Offer) -> None:
        """Send the plan to the nodes that keep their files apart."""
        with shown(offer.shared) as signs:
            for line in self._apart.values():
                line.send(plan=offer.text, signs=signs)
            said = {rank: self._hear(rank) for rank in self._apart}
        for rank, told in said.items():
            if told.get("digest") != offer.digest:
                raise RunError(f"{self._known[rank].name} has another plan", why="what it wrote is not what was sent")
            for folder in told.get("unseen", ()):
                raise offer.in_pieces(self._known[rank].name, str(folder))
        self._mirror = Mirror(offer.folder)

    def begin(self) -> None:
        """Have all nodes start their ranks."""
        self._ended.clear()
        for line in self._lines.values():
            line.send(start=True)

    def trouble(self) -> bool:
        """Whether a node was lost while the run went on."""
        self._pass_on_files()
        for rank, line in self._lines.items():
            if line.lost and rank not in self._ended:
                self._lost.setdefault(rank, line.lost)
        return bool(self._lost)

    def conclude(self, judge: Callable[[], tuple[Outcome, int, bool]]) -> tuple[Outcome, bool]:
        """Wait until every node's ranks have ended, judge, and tell all.

        Args:
            judge: gives the outcome, its exit code, and whether the run is started again.
        """
        for rank, line in self._lines.items():
            self._await_end(rank, line)
        self._pass_on_files()
        outcome, code, again = judge()
        again = again and not self._lost
        self._pass_on_files()
        for line in self._lines.values():
            line.send(code=code, again=again)
        return outcome, again

    def _await_end(self, rank: int, line: Line) -> None:
        while rank not in self._lost:
            try:
                told = line.receive(1.0)
                if told.get("ended"):
                    self._ended.add(rank)
                    return
                if "error" in told:
                    self._lost[rank] = str(as_error(told["error"]))
            except TimeoutError:
                self._pass_on_files()
            except LostError as lost:
                self._lost.setdefault(rank, str(lost))

    def _pass_on_files(self) -> None:
        """Take what the nodes apart have sent, and send them what their ranks look for."""
        if self._mirror is None:
            return
        for rank, line in self._apart.items():
            for name, text in line.files():
                if self._mirror.take(name, text):
                    self._send_file(name, text, but=rank)
        for name, text in self._mirror.changed():
            self._send_file(name, text)

    def _send_file(self, name: str, text: str, but: int = 0) -> None:
        if is_for_guests(name):
            for rank, line in self._apart.items():
                if rank != but:
                    line.send(file=name, text=text)

    def _hear(self, rank: int) -> Mapping[str, Any]:
        """What a node says before the start."""
        try:
            told = self._lines[rank].receive(_READY_SECONDS)
        except (TimeoutError, LostError) as lost:
            raise RunError(f"{self._known[rank].name} was lost before the start", why=str(lost)) from None
        if "error" in told:
            raise cannot_take_part(self._known[rank].name, told["error"])
        return told

    def _accept(self, say: Callable[[str], None]) -> None:
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return
        line = Line(connection)
        line.send(hello=GREETING)
        try:
            told = line.receive(_HELLO_SECONDS)
            if "failed" in told:
                self._refused.append(line)
                raise cannot_take_part(f"node {told.get('rank')} ({told.get('host')})", told["failed"])
            guest = Facts.of(told)
        except (TimeoutError, LostError, KeyError, TypeError, ValueError):  # somebody else, or an impatient one
            line.close()
            return
        if refused := self._refusal(guest):
            self._refused.append(line)
            line.send(error=as_message(refused))
            raise refused
        self._lines[guest.rank], self._known[guest.rank] = line, guest
        say(f"{guest.name} is here, {len(self._lines) + 1} of {self._place.nodes}")

    def _refusal(self, guest: Facts) -> PrimusError | None:
        if guest.rank in self._known or guest.rank == 0:
            first = self._known.get(guest.rank, self._facts)
            why = f"{first.host} and {guest.host} both have it"
            return ConfigError(f"two nodes have NODE_RANK {guest.rank}", why=why, remedy="give each node its own")
        if unlike := list(differences(self._facts, guest)):
            return ConfigError(
                "the nodes are not alike",
                why="\n".join(unlike),
                remedy="make them alike: the same versions, the same options, the same experiment on every node",
            )
        return None

    def _absent(self) -> RunError:
        absent = sorted(set(range(1, self._place.nodes)) - self._lines.keys())
        here = ", ".join([self._facts.name, *(self._known[rank].name for rank in sorted(self._known))])
        return RunError(
            f"node{'s' * (len(absent) > 1)} {', '.join(map(str, absent))} did not come in {self._place.wait:.0f} s",
            where=f"{self._place.address}:{self._place.port}",
            why=f"here: {here}",
            remedy="start it there with the same command and its own NODE_RANK; NODES_WAIT_SECONDS is how long to wait",
        )

    def _refuse(self, error: BaseException) -> None:
        """Tell those that are here, and those that are about to come."""
        message = as_message(error)
        for line in self._lines.values():
            line.send(error=message)
        deadline = time.monotonic() + (_REFUSE_SECONDS if len(self._lines) < self._place.nodes - 1 else 0)
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                line = Line(self._listener.accept()[0])
                line.send(hello=GREETING)
                line.send(error=message)
                self._refused.append(line)


def cannot_take_part(name: str, told: Mapping[str, Any]) -> PrimusError:
    """The error of a run one of whose nodes has failed before the start."""
    error = as_error(told)
    return type(error)(f"{name} cannot take part: {error.what}", where=error.where, why=error.why, remedy=error.remedy)
