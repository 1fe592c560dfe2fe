"""What preflight checks found, in an order that no plugin decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from attrs import evolve

from primus_core.discovery import PluginInfo
from primus_core.errors import ExitCode, PrimusError
from primus_core.hooks.faults import wrong_result
from primus_core.outcome import Cause, Finding

_SEVERITIES = ("error", "warning", "info")
_CAUSES: dict[ExitCode, Cause] = {
    ExitCode.DEPENDENCY: "dependency",
    ExitCode.USAGE: "configuration",
    ExitCode.RUNTIME: "runtime",
}


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, then by check and text."""
    return tuple(
        sorted(findings, key=lambda f: (_SEVERITIES.index(f.severity), f.check, f.summary, f.evidence, f.remedy))
    )


def as_errors(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, where a warning shall end a run as an error does."""
    for finding in findings:
        yield evolve(finding, severity="error") if finding.severity == "warning" else finding


def as_findings(info: PluginInfo, results: object) -> list[Finding]:
    """The findings in pluggy's list of results, which leaves out a plugin that returned None."""
    flat: list[Finding] = []
    for result in results if isinstance(results, list) else [results]:
        if not isinstance(result, (list, tuple)) or not all(isinstance(item, Finding) for item in result):
            raise wrong_result(info, "preflight_check", "a sequence of Finding", result)
        for finding in result:
            if finding.severity not in _SEVERITIES or finding.cause not in get_args(Cause):
                wanted = f"findings of severity {', '.join(_SEVERITIES)} and cause {', '.join(get_args(Cause))}"
                raise wrong_result(info, "preflight_check", wanted, finding)
        flat.extend(result)
    return flat


def as_finding(info: PluginInfo, error: PrimusError, cause: Cause | None = None) -> Finding:
    return Finding(
        check=info.name,
        severity="error",
        summary=error.what,
        evidence=error.why,
        remedy=error.remedy,
        where=error.where,
        cause=cause or _CAUSES[error.exit_code],
    )
