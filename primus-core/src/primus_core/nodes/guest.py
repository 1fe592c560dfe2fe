"""Every node but node 0: goes there, is told what is run, and says when its ranks have ended."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from primus_core.errors import ConfigError, PrimusError, RunError
from primus_core.nodes.board import Question
from primus_core.nodes.facts import Facts
from primus_core.nodes.line import GREETING, Line, LostError
from primus_core.nodes.mirror import Mirror
from primus_core.nodes.place import Place
from primus_core.nodes.told import as_error, as_message
from primus_core.outcome import Problem

_CONNECT_SECONDS = 3.0
_GREETING_SECONDS = 5.0
_PAUSE_SECONDS = 0.5

Outcome = TypeVar("Outcome")


class Guest:
    """The connection to node 0; a context.

    Raises, when it is entered:
        ConfigError: MASTER_ADDR has no address, or the node does not fit to the others.
        RunError: node 0 did not answer in time, or failed.
    """

    leads = False
    lost: tuple[Problem, ...] = ()

    def __init__(self, place: Place, facts: Facts, say: Callable[[str], None]) -> None:
        self._place, self._facts, self._say = place, facts, say
        self._line: Line | None = None
        self._mirror: Mirror | None = None
        self._is_over = False

    def __enter__(self) -> Guest:
        with Question(self._facts.folder) as question:
            self._line = self._connect(question)
        self._line.send(**self._facts.to_json())
        self._say(f"at node 0 ({self._where}), waiting for the others")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            if isinstance(error, PrimusError) and not self._is_over:
                self._line.send(error=as_message(error))
            self._line.close()

    def told(self) -> tuple[str, str]:
        """The run's id, and the digest of its plan, when all nodes are here.

        Raises:
            PrimusError: node 0 says why there is no run, or is lost.
        """
        message = self._hear()
        return str(message["run"]), str(message["digest"])

    def ready(self, *, sees_plan: bool, is_named: bool) -> None:
        """Answer whether this node sees the plan, and whether its user has named the run and where the nodes meet."""
        self._sent.send(ready=sees_plan, named=is_named)

    def given(self) -> tuple[str, Sequence[str]]:
        """For a node that does not see it: the plan's text, and signs in folders that all nodes have to share.

        Raises:
            PrimusError: node 0 says why there is no run, or is lost.
        """
        message = self._hear()
        return str(message["plan"]), list(map(str, message["signs"]))

    def kept(self, folder: Path, digest: str, unseen: Sequence[str]) -> None:
        """Answer what was written, and keep the run directory alike with node 0's from now on.

        Args:
            unseen: the folders whose sign is not seen here.
        """
        self._sent.send(digest=digest, unseen=list(unseen))
        self._mirror = Mirror(folder)

    def begin(self) -> None:
        """Wait for the start."""
        if self._mirror is not None:
            self._mirror.clear()
        self._hear()

    def trouble(self) -> bool:
        """Whether node 0 was lost."""
        self._pass_on_files()
        return bool(self._sent.lost)

    def _pass_on_files(self) -> None:
        if self._mirror is not None:
            for name, text in self._sent.files():
                self._mirror.take(name, text)
            for name, text in self._mirror.changed():
                self._sent.send(file=name, text=text)

    def conclude(self, judge: Callable[[], tuple[Outcome, int, bool]]) -> tuple[Outcome, bool]:
        """Say that the ranks have ended, and hear what came of the run.

        Raises:
            RunError: node 0 was lost.
        """
        self._pass_on_files()
        self._sent.send(ended=True)
        message = self._hear()
        self._pass_on_files()
        outcome, _, _ = judge()
        return outcome, bool(message["again"])

    @property
    def number(self) -> int:
        return self._place.rank

    @property
    def _where(self) -> str:
        return f"{self._place.address}:{self._place.port}"

    @property
    def _sent(self) -> Line:
        if self._line is None:
            raise RuntimeError("not connected")
        return self._line

    def _hear(self) -> Mapping[str, Any]:
        """The next message of node 0, however long it takes while it lives."""
        while True:
            try:
                message = self._sent.receive(1.0)
            except TimeoutError:
                continue
            except LostError as lost:
                self._is_over = True
                raise RunError("node 0 was lost", where=self._where, why=str(lost), remedy="see what it says") from None
            if "error" in message:
                self._is_over = True
                raise as_error(message["error"])
            return message

    def _connect(self, question: Question) -> Line:
        deadline = time.monotonic() + self._place.wait
        self._say(f"going to node 0 at {self._where}")
        while True:
            try:
                connection = socket.create_connection((self._place.address, self._place.port), _CONNECT_SECONDS)
                return self._greeted(Line(connection))
            except socket.gaierror as error:
                raise ConfigError(
                    f"MASTER_ADDR is {self._place.address}, which {self._facts.host} cannot resolve",
                    why=str(error),
                    remedy="give an address, or a name that every node knows",
                ) from None
            except OSError as error:
                if told := question.ask():
                    raise told from None
                if time.monotonic() > deadline:
                    raise self._no_answer(error) from None
                time.sleep(_PAUSE_SECONDS)

    def _greeted(self, line: Line) -> Line:
        try:
            if line.receive(_GREETING_SECONDS).get("hello") == GREETING:
                return line
        except (TimeoutError, LostError):
            pass
        line.close()
        raise RunError(
            f"what answers at {self._where} is not node 0 of a run",
            why="MASTER_ADDR or MASTER_PORT names another program",
            remedy="set MASTER_ADDR to the host of NODE_RANK 0, and MASTER_PORT to a port that is free there",
        )

    def _no_answer(self, error: OSError) -> RunError:
        return RunError(
            f"node 0 did not answer in {self._place.wait:.0f} s",
            where=self._where,
            why=f"{error.strerror or error}",
            remedy="start node 0 (NODE_RANK=0) on the host that MASTER_ADDR names; a firewall may hide its port",
        )
