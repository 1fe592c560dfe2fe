"""What looks have to say. What they find is a fault of the node: exit code 3 where it ends anything."""

from __future__ import annotations

from primus_core.outcome import Finding


def error(check: str, summary: str, evidence: str = "", remedy: str = "") -> Finding:
    """The node should not take part."""
    return Finding(check=check, severity="error", summary=summary, evidence=evidence, remedy=remedy, cause="runtime")


def warning(check: str, summary: str, evidence: str = "", remedy: str = "") -> Finding:
    """It can take part; somebody should look at it."""
    return Finding(check=check, severity="warning", summary=summary, evidence=evidence, remedy=remedy, cause="runtime")
