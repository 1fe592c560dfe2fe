"""What is wrong with experiment files: everything, with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve, frozen

from primus_core.errors import ErrorGroup, PrimusError
from primus_core.outcome import Finding, Severity
from primus_core.pipeline import Judged


@frozen(kw_only=True)
class Remark:
    """One thing to say about a file: an error or a warning."""

    severity: Severity
    what: str
    where: str = ""
    """``file:line``; the file where there is no line."""
    why: str = ""
    remedy: str = ""
    check: str = ""
    """Name of the check; empty for what hindered reading on."""


@frozen(kw_only=True)
class Verdict:
    """What was found about one file."""

    file: str
    remarks: tuple[Remark, ...] = ()
    judged_for: str = ""
    """Hardware and library; empty where the errors came earlier."""

    def count(self, severity: Severity) -> int:
        return sum(remark.severity == severity for remark in self.remarks)

    @property
    def outcome(self) -> str:
        """``ok``, ``1 warning``, ``2 errors, 1 warning``."""
        counts = [_counted(self.count(severity), severity) for severity in ("error", "warning")]
        return ", ".join(filter(None, counts)) or "ok"


def verdict(file: str, judge: Callable[[], Judged]) -> Verdict:
    """Judge one file; what it raises is part of the verdict.

    A model that the installed library cannot build is a warning: the file may be right, and meant for another
    installation. A run of it is refused.
    """
    try:
        judged = judge()
    except ErrorGroup as group:
        return Verdict(file=file, remarks=_in_order(_of_error(error, file) for error in group.errors))
    except PrimusError as error:
        return Verdict(file=file, remarks=(_of_error(error, file),))
    findings = (_milder(finding) for finding in judged.findings if finding.severity != "info")
    remarks = [*(_of_error(error, file) for error in judged.errors), *(_of_finding(one, file) for one in findings)]
    return Verdict(file=file, remarks=_in_order(remarks), judged_for=hardware(judged))


def _in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """As their lines are in each file; files in the order in which they are first named."""
    found = list(remarks)
    files = list(dict.fromkeys(remark.where.rpartition(":")[0] for remark in found))
    return tuple(sorted(found, key=lambda remark: _place(remark.where, files)))


def _place(where: str, files: list[str]) -> tuple[int, int]:
    file, _, line = where.rpartition(":")
    return files.index(file), int(line) if line.isdecimal() else 0


def hardware(judged: Judged) -> str:
    """What a plan is judged for: ``8 ranks on 1 node (cuda), megatron 0.19.2``."""
    target = judged.target
    if target is None:
        return ""
    ranks, nodes = _counted(target.world_size, "rank"), _counted(target.nodes, "node")
    return f"{ranks} on {nodes} ({target.accelerator}), {judged.module.framework} {target.library_version}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}" if number else ""


def _milder(finding: Finding) -> Finding:
    is_missing = finding.severity == "error" and finding.cause in ("dependency", "unsupported")
    return evolve(finding, severity="warning") if is_missing else finding


def _of_error(error: PrimusError, file: str) -> Remark:
    return Remark(severity="error", what=error.what, where=error.where or file, why=error.why, remedy=error.remedy)


def _of_finding(finding: Finding, file: str) -> Remark:
    return Remark(
        severity=finding.severity,
        what=finding.summary,
        where=finding.where or file,
        why=finding.evidence,
        remedy=finding.remedy,
        check=finding.check,
    )
