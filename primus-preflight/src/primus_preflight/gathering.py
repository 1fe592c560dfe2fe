"""The gatherer's side: which nodes have answered, how long it is worth to wait, and all that they have seen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from attrs import evolve

from primus_core.codec import from_json
from primus_core.errors import ConfigError
from primus_preflight.agent.files import ASKED, DONE, MEASUREMENTS, NODE, Measured
from primus_preflight.judging import Report
from primus_preflight.merging import merged
from primus_preflight.model import Gathered, Measurement, Node

QUIET_SECONDS = 30.0
"""How long nothing may come any more, once the first node has said all, until the others are given up."""
_LOOK_SECONDS = 0.5
REPORT = "report.json"
"""Holds all that was gathered, too."""

T = TypeVar("T")


class Waiting:
    """Looks at a preflight's folder, and tells when to wait no longer.

    Args:
        limit: seconds in all, from `begin`.
        meets: the nodes have something to do with each other: the first one says all when all have.
        quiet: see `QUIET_SECONDS`.
        stall: the same where the first one may be the one that is lost: longer than any round that nodes measure in.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: float,
        meets: bool,
        quiet: float = QUIET_SECONDS,
        stall: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._meets, self._clock = folder, meets, clock
        self._limit, self._quiet, self._stall = limit, quiet, stall
        self._end = math.inf
        self._looked = 0.0
        self._seen: tuple[int, int, float] = (0, 0, 0.0)
        self._changed = clock()
        self.over = False
        """It was enough, whether or not all nodes have said all."""

    def begin(self) -> None:
        """The nodes are there, which a scheduler may give them hours after they were asked for: their time runs."""
        self._end = self._clock() + self._limit

    def for_all(self, nodes: int) -> None:
        """Wait until so many nodes have said all, or it is enough."""
        while not self.enough() and sum(1 for _ in self._folder.glob(DONE)) < nodes:
            time.sleep(_LOOK_SECONDS)

    def enough(self) -> bool:
        """Whether nothing more will come, or time is over."""
        now = self._clock()
        if not self.over and now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self.over = now > self._end or self._is_quiet(now)
        return self.over

    def _is_quiet(self, now: float) -> bool:
        done = {path.stem for path in self._folder.glob(DONE)}
        begun, measured = (
            sum(1 for _ in self._folder.glob(NODE)),
            max(map(_changed, self._folder.glob(MEASUREMENTS)), default=0.0),
        )
        seen = begun, len(done), measured
        if seen != self._seen:
            self._seen, self._changed = seen, now
        if not done or now - self._changed < self._quiet:
            return False
        over = not self._meets or "node-0" in done or begun == len(done)
        return over or now - self._changed >= self._stall


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def read(paths: Iterable[Path]) -> Gathered:
    """All that is in folders and files of preflights.

    A host that is there twice, as in a second preflight of the same nodes, counts as it was seen last.

    Args:
        paths: folders of preflights or of their runs, or single files of them, among them report.json.

    Raises:
        ConfigError: a file is none of a preflight, or there is none.
    """
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise ConfigError("no file of a preflight", remedy="give the folder RUN/preflight, or files of it")
    reports = [_read(Report, file).gathered for file in files if file.name == REPORT]
    folders: dict[Path, list[Path]] = {}
    for file in files:
        if file.name != REPORT:
            folders.setdefault(file.parent, []).append(file)
    return merged([*reports, *map(_read_folder, folders.values())])


def _read_folder(files: list[Path]) -> Gathered:
    """Files of one preflight."""
    asked = [_read(Gathered, file) for file in files if file.name == ASKED]
    measured = [_read(Measured, file) for file in files if fnmatch(file.name, MEASUREMENTS)]
    nodes = [_read(Node, file) for file in files if file.name != ASKED and not fnmatch(file.name, MEASUREMENTS)]
    return put_together(asked, nodes, [one for some in _largest(measured) for one in some.measurements])


def _largest(measured: Iterable[Measured]) -> Iterable[Measured]:
    """Of each run the meeting that came to its end, and to which most nodes came: one that is cut off holds its own,
    and misses all others."""
    best: dict[str, Measured] = {}
    for one in sorted(measured, key=lambda one: (not one.complete, _missed(one), one.coordinator)):
        best.setdefault(one.run_id, one)
    return best.values()


def _missed(one: Measured) -> int:
    return sum(said.test == "meeting" and said.status != "ok" for said in one.measurements)


def put_together(asked: list[Gathered], nodes: list[Node], measurements: list[Measurement]) -> Gathered:
    """One record, the same in whatever order its parts come."""
    latest = {node.node: node for node in sorted(nodes, key=lambda one: (one.ended, one.host))}
    base = max(asked, key=lambda one: one.run_id) if asked else Gathered(run_id="", expected_nodes=0)
    return evolve(
        base,
        nodes=tuple(latest[number] for number in sorted(latest)),
        measurements=tuple(sorted(measurements, key=_place)),
    )


def _place(one: Measurement) -> tuple[str, int, str, int, tuple[int, ...], tuple[float, ...]]:
    return one.test, one.size_bytes, one.dtype, one.round, one.nodes, one.values


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    folder = path / "preflight" if (path / "preflight").is_dir() else path
    if not folder.is_dir():
        raise ConfigError("there is no such file or folder", where=str(path), remedy="give the folder RUN/preflight")
    yield from sorted(folder.glob(NODE))
    yield from sorted(folder.glob(MEASUREMENTS))
    yield from folder.glob(ASKED)


def _read(kind: type[T], path: Path) -> T:
    try:
        return from_json(kind, path.read_text(encoding="utf-8"), source=str(path))
    except OSError as error:
        raise ConfigError("cannot be read", where=str(path), why=error.strerror or str(error)) from None
