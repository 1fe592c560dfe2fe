"""All that one rank left behind, as text."""

from __future__ import annotations

from primus_core.log.console import topic_line
from primus_core.outcome import RankReport
from primus_core.quantities import duration, memory_size, utc_time
from primus_core.report.diagnosis import exception_line


def rank_lines(rank: RankReport) -> list[str]:
    """Lines in two columns, then its traceback and its last lines as they are."""
    told = {
        f"rank {rank.rank}": f"on {rank.host}, {_ended(rank)}",
        "where": f"{rank.phase}" + (f", iteration {rank.iteration}" if rank.iteration is not None else ""),
        "time": f"{utc_time(rank.started)} to {utc_time(rank.ended)} ({duration(rank.ended - rank.started)})",
        "memory": _memory(rank),
        "versions": ", ".join(f"{name} {version}" for name, version in rank.versions.items()),
    }
    lines = [topic_line(topic, text) for topic, text in told.items() if text]
    return [*lines, *_exceptions(rank), *_block("last lines", rank.last_lines)]


def _ended(rank: RankReport) -> str:
    how = f"killed by {rank.signal}" if rank.signal else f"exit code {rank.exit_code}"
    return f"{how}, after it was told to end" if rank.signalled_first else how


def _memory(rank: RankReport) -> str:
    parts = [f"up to {memory_size(rank.peak_memory_bytes)}"]
    if rank.memory_limit_bytes is not None:
        parts.append(f"of {memory_size(rank.memory_limit_bytes)} that its group may use")
    if rank.peak_device_memory_bytes is not None:
        parts.append(f"and {memory_size(rank.peak_device_memory_bytes)} on the accelerator")
    return " ".join(parts)


def _exceptions(rank: RankReport) -> list[str]:
    failure = rank.failure
    if failure is None:
        return []
    lines = [topic_line("failure", exception_line(failure.type, failure.text)), topic_line("", failure.at)]
    for one in failure.chain:
        lines += [topic_line("came from", exception_line(one.type, one.text)), topic_line("", one.at)]
    return [*(line for line in lines if line.strip()), *_block("traceback", tuple(failure.traceback.splitlines()))]


def _block(title: str, lines: tuple[str, ...]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []
