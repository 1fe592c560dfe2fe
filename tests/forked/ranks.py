"""Real ranks for the tests of a back end: forked from one process that has imported and patched its library."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen

from primus_core.codec import to_json
from primus_core.experiment import Value
from primus_core.plan import RunPlan

_Ranks = TypeVar("_Ranks", bound="Ranks")
_PORTS = range(15_000, 30_000)
"""Below those that the kernel gives to whoever names none, such as ranks of other tests, before these ranks are up."""


@frozen(kw_only=True)
class Outcome:
    """What the ranks of one run left behind."""

    codes: tuple[int, ...]
    lines: tuple[tuple[Mapping[str, Any], ...], ...] = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)

    def rows(self, rank: int = -1) -> list[Mapping[str, Any]]:
        return [line for line in self.lines[rank] if line["kind"] == "metrics"]

    def losses(self, rank: int = -1) -> list[float]:
        return [row["loss"] for row in self.rows(rank)]

    def of(self, kind: str, rank: int = 0) -> list[Mapping[str, Any]]:
        return [line for line in self.lines[rank] if line["kind"] == kind]

    def result(self, rank: int = -1) -> Mapping[str, Any]:
        (line,) = self.of("result", rank)
        value: Mapping[str, Any] = line["value"]
        return value

    def error(self, rank: int = 0) -> Mapping[str, Any]:
        (line,) = self.of("error", rank)
        return line

    def check(self) -> Outcome:
        """Fails with the first failed rank's last output."""
        for code, text in zip(self.codes, self.texts, strict=True):
            assert code == 0, f"exit status {self.codes}\n{text[-4000:]}"
        return self


def told(outcome: Outcome) -> list[str]:
    """What each rank said to the user, and what it returned or failed of."""
    tell: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
        "notice": lambda line: str(line["text"]),
        "result": lambda line: json.dumps(line["value"]),
        "error": lambda line: f"{line['type']}: {line['text']} {line['why']}",
    }
    return [tell[line["kind"]](line) for lines in outcome.lines for line in lines if line["kind"] in tell]


class Ranks(ABC):
    """The process that forks; a context manager.

    Args:
        zygote: the module that this process runs, which calls `tests.forked.zygote.serve`.
        patched: a plan with every patch that any run may need.
    """

    def __init__(self, zygote: str, patched: RunPlan) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", zygote],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(to_json(patched, indent=None))
        self.applied: list[str] = self._hear()["applied"]
        """Ids of the patches, in the order in which they were applied."""

    def __enter__(self: _Ranks) -> _Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)

    @abstractmethod
    def make_plan(
        self, params: Mapping[str, Value], folder: Path, world: int, settings: Mapping[str, Value]
    ) -> RunPlan:
        """The plan of a training run of the small Llama with these parameters set beside its own."""

    def run(
        self,
        folder: Path,
        params: Mapping[str, Value] | None = None,
        *,
        world: int = 2,
        settings: Mapping[str, Value] | None = None,
        entry: str = "",
        kill: str | None = None,
        prepared: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Train the small Llama with these parameters in fresh ranks; the other arguments as for `start`."""
        plan = self.make_plan(params or {}, folder, world, settings or {})
        return self.start(plan, folder, entry=entry, kill=kill, prepared=prepared)

    def start(
        self,
        plan: RunPlan,
        folder: Path,
        *,
        entry: str = "",
        kill: str | None = None,
        prepared: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run a plan in fresh ranks.

        Args:
            entry: what to run instead of the plan's own entry.
            kill: rank 0 dies of SIGKILL when what it reported matches this pattern.
            prepared: results of preparations, by name.
        """
        folder.mkdir(parents=True, exist_ok=True)
        request = {
            "plan": to_json(plan, indent=None),
            "folder": str(folder),
            "world": plan.target.world_size,
            "entry": entry or plan.task.entry,
            "port": _port(),
            "kill": kill,
            "prepared": prepared,
        }
        self._say(json.dumps(request))
        return _outcome_of(folder, self._hear()["codes"])

    def _say(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(text.strip() + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Mapping[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process that forks ranks has died"
        answer: Mapping[str, Any] = json.loads(line)
        return answer


def _outcome_of(folder: Path, codes: list[int]) -> Outcome:
    lines = []
    for rank in range(len(codes)):
        text = (folder / f"rank-{rank}.jsonl").read_text()
        # A killed rank may have been writing.
        lines.append(tuple(json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")))
    texts = tuple((folder / f"rank-{rank}.txt").read_text(errors="replace") for rank in range(len(codes)))
    return Outcome(codes=tuple(codes), lines=tuple(lines), texts=texts)


def _port() -> int:
    """One where ranks can meet that nobody has."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
