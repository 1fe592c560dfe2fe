"""What looks have to say: facts, and findings, which are faults of the node: exit code 3 where they end anything."""

from __future__ import annotations

from attrs import AttrsInstance, fields

from primus_core.experiment import Value
from primus_core.outcome import Finding


def facts_of(record: AttrsInstance, *without: str) -> dict[str, Value]:
    """The fields of what was looked at, by name, but for some."""
    values = {field.name: getattr(record, field.name) for field in fields(type(record)) if field.name not in without}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def error(check: str, summary: str, evidence: str = "", remedy: str = "") -> Finding:
    """The node should not take part."""
    return Finding(check=check, severity="error", summary=summary, evidence=evidence, remedy=remedy, cause="runtime")


def warning(check: str, summary: str, evidence: str = "", remedy: str = "") -> Finding:
    """It can take part; somebody should look at it."""
    return Finding(check=check, severity="warning", summary=summary, evidence=evidence, remedy=remedy, cause="runtime")
