"""The words for what is wrong with a file."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding, Severity


def finding(
    case: Case,
    check: str,
    summary: str,
    keys: Iterable[str],
    remedy: str,
    *,
    why: str = "",
    severity: Severity = "error",
) -> Finding:
    """A finding at the line of the first key, with the values and lines of all.

    Args:
        keys: Megatron's names of the parameters concerned.
        why: the rule that is broken, or what was seen in the files.
    """
    names = tuple(keys)
    told = case.finding(severity, check, summary, names, remedy)
    path = case.paths.get(names[0], names[0])
    where = case.module.origin(path) if path in case.module.params else ""
    return evolve(told, where=where, evidence="\n".join(filter(None, (why, told.evidence))))
