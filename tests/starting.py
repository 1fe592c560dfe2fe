"""Runs that would begin with a checkpoint, and what is said about it before they start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from primus_core.checkpoints.folders import Naming
from primus_core.experiment import Value
from primus_core.outcome import Finding
from tests.experiments import Host, line_of


@frozen(kw_only=True)
class Starting:
    """Runs of one back end."""

    host: Host
    naming: Naming
    tracker: str = ""
    """Name of the file in which the library keeps the newest step; empty where it keeps none."""
    params: Mapping[str, Value] = field(factory=dict)
    """Before those of each run."""

    def look(self, params: Mapping[str, Value], *, ranks: int = 1) -> list[Finding]:
        """What the check of files finds."""
        return self.host.findings_of_files({**self.params, **params}, ranks=ranks)

    def one(self, params: Mapping[str, Value], *, ranks: int = 1) -> Finding:
        """All that it finds."""
        (finding,) = self.look(params, ranks=ranks)
        return finding

    def line(self, params: Mapping[str, Value], name: str) -> str:
        """Where a parameter stands."""
        return line_of({**self.params, **params}, name)

    def save(self, folder: Path, *steps: int) -> None:
        """Empty checkpoints of ours that are whole."""
        for step in steps:
            self.naming.begin_saving(folder, step)
            self.naming.folder(folder, step).mkdir()
            self.naming.finish_saving(folder, step, {})
            if self.tracker:
                (folder / self.tracker).write_text(str(step))
