"""One report of a run from those of its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from primus_core.codec import from_json, to_json
from primus_core.errors import ConfigError, ExitCode
from primus_core.files import write_atomic
from primus_core.outcome import RankReport, RunReport
from primus_core.peers import lost_peer
from primus_core.report.diagnosis import diagnose
from primus_core.rundir import RunDir


def merge(rundir: RunDir, world_size: int) -> RunReport:
    """Read the reports of all ranks; those that are missing or damaged are left out.

    The exit code is 0 when every rank succeeded, the one of the rank that failed first if that is 1, 2 or 3, and 3
    in all other cases: a rank was killed, ended with a status of its own, or left no report.
    """
    ranks = tuple(filter(None, (_read_rank(rundir, rank) for rank in range(world_size))))
    first = first_failure(ranks)
    vanished = _vanished(ranks, first, world_size)
    return RunReport(
        run_id=rundir.path.name,
        exit_code=_exit_code(ranks, first, world_size),
        started=min((rank.started for rank in ranks), default=0.0),
        ended=max((rank.ended for rank in ranks), default=0.0),
        ranks=ranks,
        first_failure=first.rank if first and vanished is None else vanished,
        diagnosis=diagnose(rundir, first) if first and vanished is None else None,
        result=_result(ranks),
        stopped=next((rank.stopped for rank in ranks if rank.stopped), None),
        stall=next((rank.stall for rank in ranks if rank.stall), None),
        stragglers=tuple(slow for rank in ranks for slow in rank.stragglers),
    )


def write(rundir: RunDir, report: RunReport) -> None:
    """Write ``report.json``.

    Raises:
        OSError: the run directory is not writable.
    """
    write_atomic(rundir.report, to_json(report))


def read(rundir: RunDir) -> RunReport | None:
    """The report of a finished run; None when there is none.

    Raises:
        ConfigError: the file is damaged.
    """
    try:
        text = rundir.report.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return from_json(RunReport, text, source=str(rundir.report))


def clear(rundir: RunDir) -> None:
    """Remove the reports of an earlier start of the same run, which would be taken for this one's."""
    for file in (rundir.report, *rundir.ranks.glob("rank-*.json")):
        file.unlink(missing_ok=True)


def first_failure(ranks: Iterable[RankReport]) -> RankReport | None:
    """The failed rank that pulled the others along: the earliest one that did not fail in consequence."""
    failed = [rank for rank in ranks if rank.exit_code]
    return min(failed, key=lambda rank: (in_consequence(rank), rank.ended, rank.rank), default=None)


def noticed_by(ranks: Iterable[RankReport]) -> RankReport | None:
    """The rank that was the first to lose a peer."""
    lost = [rank for rank in ranks if rank.exit_code and not rank.signalled_first]
    return min(lost, key=lambda rank: (rank.ended, rank.rank), default=None)


def _vanished(ranks: tuple[RankReport, ...], first: RankReport | None, world_size: int) -> int | None:
    """The lowest rank without a report, where all that failed say no more than that a peer is gone."""
    if first is None or not in_consequence(first):
        return None
    return min(set(range(world_size)) - {rank.rank for rank in ranks}, default=None)


def in_consequence(rank: RankReport) -> bool:
    """Whether a rank failed because another one did: it was told to end, or lost its peer."""
    failure = rank.failure
    return rank.signalled_first or bool(failure and not failure.problems and lost_peer(failure.text))


def _read_rank(rundir: RunDir, rank: int) -> RankReport | None:
    path = rundir.ranks / f"rank-{rank}.json"
    try:
        return from_json(RankReport, path.read_text(encoding="utf-8"), source=str(path))
    except (FileNotFoundError, UnicodeDecodeError, ConfigError):
        return None


def _exit_code(ranks: tuple[RankReport, ...], first: RankReport | None, world_size: int) -> int:
    if first is not None:
        return first.exit_code if first.exit_code in (1, 2, 3) else ExitCode.RUNTIME
    return ExitCode.OK if len(ranks) == world_size else ExitCode.RUNTIME


def _result(ranks: Iterable[RankReport]) -> Mapping[str, object]:
    """What the ranks returned together: of each value, the lowest rank's that has it."""
    merged: dict[str, object] = {}
    for rank in ranks:
        for key, value in rank.result.items():
            if merged.get(key) is None:
                merged[key] = value
    return merged
