"""The reports of those starts of a run that failed before it was started again in place."""

from __future__ import annotations

from pathlib import Path

from primus_core.codec import from_json
from primus_core.outcome import RunReport
from primus_core.rundir import RunDir


def attempts_folder(rundir: RunDir) -> Path:
    """``{run_dir}/attempts``, with a folder of reports for each start, by its number."""
    return rundir.path / "attempts"


def attempts(rundir: RunDir) -> tuple[RunReport, ...]:
    """The reports of all starts but the last, the first one first.

    Raises:
        ConfigError: one is damaged.
    """
    files = sorted(attempts_folder(rundir).glob("*/report.json"), key=lambda file: int(file.parent.name))
    return tuple(from_json(RunReport, file.read_text(encoding="utf-8"), source=str(file)) for file in files)
