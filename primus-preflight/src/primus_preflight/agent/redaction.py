"""Keeps values of secret variables out of what a node writes down, whoever told them: a check, a program, an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from attrs import evolve

from primus_core.compare.texts import with_texts
from primus_core.log.redaction import Redactor
from primus_core.outcome import Finding
from primus_core.planning.secrets import secret_names
from primus_preflight.model import Measurement, Node, Probe


def redactor_of(env: Mapping[str, str]) -> Redactor:
    """For the secrets of an agent's environment, which are those of all that it starts."""
    return Redactor.of_environment(secret_names(env), env)


def redacted_node(node: Node, redact: Redactor) -> Node:
    """The node, with ``***`` in place of secrets."""
    probes = tuple(map(partial(_probe, redact), node.probes))
    return evolve(node, probes=probes, measurements=redacted_measurements(node.measurements, redact))


def redacted_measurements(measurements: Iterable[Measurement], redact: Redactor) -> tuple[Measurement, ...]:
    """The same of what was measured."""
    return tuple(evolve(one, error=redact(one.error)) if one.error else one for one in measurements)


def _probe(redact: Redactor, probe: Probe) -> Probe:
    findings = tuple(map(partial(_finding, redact), probe.findings))
    return evolve(probe, facts=with_texts(probe.facts, redact), findings=findings, error=redact(probe.error))


def _finding(redact: Redactor, one: Finding) -> Finding:
    texts: dict[str, Any] = {
        name: redact(getattr(one, name)) for name in ("check", "summary", "evidence", "remedy", "where")
    }
    return evolve(one, **texts)
