"""Why a rank failed, in plain words, from what it left behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from primus_core.errors import ConfigError
from primus_core.outcome import Diagnosis, Failure, RankReport
from primus_core.planning.dataindex import check_whole
from primus_core.quantities import memory_size
from primus_core.report.causes import cause_of
from primus_core.rundir import RunDir

_SEEN_CHARACTERS = 300
_SIGNALS = {
    "SIGKILL": "killed by SIGKILL: somebody ended it, or the kernel did because memory ran out",
    "SIGSEGV": "crashed by SIGSEGV: native code touched memory that is not its own",
    "SIGABRT": "aborted itself (SIGABRT): native code found a fault it could not handle",
    "SIGBUS": "crashed by SIGBUS: often a full /dev/shm or a truncated file",
    "SIGFPE": "crashed by SIGFPE: native code divided by zero",
    "SIGILL": "crashed by SIGILL: a library was built for another processor",
    "SIGTERM": "ended by SIGTERM",
    "SIGINT": "ended by SIGINT",
}


def diagnose(rundir: RunDir, rank: RankReport) -> Diagnosis | None:
    """The cause, where it is a known one; None also for a failure that the rank itself explains."""
    if rank.failure is not None and rank.failure.problems:
        return None
    if rank.signal == "SIGKILL" and rank.out_of_memory:
        return _out_of_memory(rank)
    if rank.signal == "SIGBUS" and (short := _short_data(rundir)):
        return short
    return told_by(_texts(rank))


def told_by(lines: Iterable[str]) -> Diagnosis | None:
    """What the earliest line that the table of causes knows tells of."""
    hit = cause_of(lines)
    if hit is None:
        return None
    cause, line = hit
    return Diagnosis(kind=cause.kind, what=cause.what, why=_cut(line), remedy=cause.remedy)


def in_plain_words(rank: RankReport) -> str:
    """How a rank ended whose cause is not known."""
    if failure := raised(rank):
        return exception_line(failure.type, failure.text)
    if rank.signal == "SIGKILL" and rank.out_of_memory is False:
        return "somebody killed it (SIGKILL); memory had not run out"
    if rank.signal is not None:
        return _SIGNALS.get(rank.signal, f"killed by {rank.signal}")
    return f"it ended with exit status {rank.exit_code} and gave no reason"


def raised(rank: RankReport) -> Failure | None:
    """The exception that ended a rank. A crash has the signal's name in its place, and tells no more than that."""
    return None if rank.failure is None or rank.failure.type == rank.signal else rank.failure


def exception_line(kind: str, text: str) -> str:
    """``ValueError: first line of its text``."""
    first = text.strip().partition("\n")[0]
    return f"{kind}: {first}" if first else kind


def _texts(rank: RankReport) -> Iterator[str]:
    """What may tell of the cause. Its last lines only where the rank did not get to raise anything."""
    if failure := raised(rank):
        yield f"{failure.type}: {failure.text}"
        yield from (f"{one.type}: {one.text}" for one in failure.chain)
    elif rank.signal != "SIGKILL":
        yield from reversed(rank.last_lines)


def _out_of_memory(rank: RankReport) -> Diagnosis:
    limit = rank.memory_limit_bytes
    return Diagnosis(
        kind="memory",
        what="killed by the kernel, because memory ran out",
        why=f"it had used up to {memory_size(rank.peak_memory_bytes)}"
        + (f", and all processes of its group (container, job) together may use {memory_size(limit)}" if limit else ""),
        remedy="raise the limit of memory of the job or container, start fewer ranks on a host, or make "
        "`micro_batch_size` or `num_workers` smaller",
    )


def _short_data(rundir: RunDir) -> Diagnosis | None:
    """A token file that is shorter than its index says: the rest of what the rank had mapped is gone."""
    for prefix in _prefixes(rundir):
        try:
            check_whole(prefix, "")
        except ConfigError as error:
            remedy = "copy the file again, or tokenize again; nobody may write to data while a run reads them"
            return Diagnosis(kind="data", what=error.what, why=f"SIGBUS while it was read: {error.why}", remedy=remedy)
        except OSError:
            continue
    return None


def _prefixes(rundir: RunDir) -> Iterator[str]:
    """The token files of a run, as its preparation wrote them down."""
    try:
        prepared = json.loads((rundir.prepare / "data.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    for split in ("train", "valid", "test"):
        yield from (row["prefix"] for row in prepared.get(split) or ())


def _cut(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _SEEN_CHARACTERS else f"{first[:_SEEN_CHARACTERS]}..."
