"""The verdicts for what reads JUnit's XML, such as CI systems: one case for each node, and one for what is between."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from primus_core.render.tables import one_line
from primus_preflight.judging import Fault, Report
from primus_preflight.judging.report import FAULTY, RANKING

_BETWEEN = "between nodes"


def junit(report: Report) -> str:
    """Failures and missing nodes are ``failure``, what could not be tested ``error``; warnings are output of a case."""
    suite = ET.Element("testsuite", name="primus preflight")
    faults: dict[int, list[Fault]] = {one.node: [] for one in report.nodes}
    between: list[Fault] = []
    for fault in report.faults:
        if not fault.blames_nodes or not fault.nodes:
            between.append(fault)
        for node in fault.nodes if fault.blames_nodes else ():
            faults[node].append(fault)
    for one in report.nodes:
        _case(suite, one.host or f"node {one.node}", faults[one.node])
    _case(suite, _BETWEEN, between)
    for count, tag in (("failures", "failure"), ("errors", "error")):
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    ET.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suite, encoding="unicode")}\n'


def _case(suite: ET.Element, name: str, faults: list[Fault]) -> None:
    """JUnit knows one result of a case: the worst fault's; its text has all."""
    case = ET.SubElement(suite, "testcase", classname="preflight", name=_text(name))
    worst = max(faults, key=lambda one: RANKING.index(one.level), default=None)
    if worst is None:
        return
    tag = ("error" if worst.level == "error" else "failure") if worst.level in FAULTY else "system-out"
    result = ET.SubElement(case, tag)
    if tag != "system-out":
        result.set("message", _text(worst.what))
        result.set("type", worst.kind)
    result.text = "\n".join(f"{one.level}: {_text(one.what)}: {_text('; '.join(one.evidence))}" for one in faults)


def _text(text: str) -> str:
    return one_line(text)
