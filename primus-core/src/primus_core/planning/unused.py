"""One finding about all settings that have no effect, so that hundreds of rows stay one line to read."""

from __future__ import annotations

import shlex

from primus_core.experiment import Experiment, Module
from primus_core.outcome import Finding
from primus_core.plan import Translation

UNUSED = "config.no-effect"
_HAVE_NO_EFFECT = (UNUSED, "launcher.section")
_MOST_NAMES = 12


def unused_parameters(experiment: Experiment, module: Module, translation: Translation) -> tuple[Finding, ...]:
    """A warning that names the parameters which reach nothing here; nothing where there are none."""
    rows = [row for row in translation.unused if row.severity == "warning"]
    if not rows:
        return ()
    where = module.origin(rows[0].path)
    shown = [f"{row.path} ({_place(module.origin(row.path), where)})" for row in rows[:_MOST_NAMES]]
    more = len(rows) - len(shown)
    count = "1 parameter has" if len(rows) == 1 else f"{len(rows)} parameters have"
    return (
        Finding(
            check=UNUSED,
            severity="warning",
            summary=f"{count} no effect here",
            evidence=", ".join(shown) + (f", and {more} more" if more else ""),
            remedy=f"`primus config explain {shlex.quote(experiment.file)} {rows[0].path}` says why",
            where=where,
        ),
    )


def _place(origin: str, known: str) -> str:
    """``line 20`` in the file that is named already, else ``file:line``."""
    file, _, line = origin.rpartition(":")
    return f"line {line}" if file and file == known.rpartition(":")[0] else origin


def has_no_effect(finding: Finding) -> bool:
    """Whether it tells of settings that reach nothing: what ``--strict`` makes an error."""
    return finding.check in _HAVE_NO_EFFECT
