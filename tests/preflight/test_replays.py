"""Records of healthy hosts pass when they are judged, and fail when one host in them is made slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from primus_core.cli.main import main
from primus_core.codec import from_json, to_json
from primus_preflight.judging import Report
from primus_preflight.model import Gathered, Measurement

RECORDS = sorted((Path(__file__).parent / "recorded/healthy").glob("*/report.json"))
TRUE_OF_ALL = {"nothing keeps this host's clock right"}
"""What the hosts really lacked when they were recorded."""
PART = 0.7
BAD = 1


def replayed(record: Report, folder: Path) -> tuple[int, Report]:
    """`primus preflight report` on a record: its exit code, and what it judged."""
    folder.mkdir()
    path = folder / "report.json"
    path.write_text(to_json(record), encoding="utf-8")
    code = main(["preflight", "report", str(path), "--output", str(folder / "again")])
    return code, from_json(Report, (folder / "again/report.json").read_text(encoding="utf-8"))


def named(path: Path) -> str:
    return path.parent.name


def read(path: Path) -> Report:
    return from_json(Report, path.read_text(encoding="utf-8"), source=str(path))


def slowed(gathered: Gathered, node: int) -> Gathered:
    """With figures that are worse by 30 % where the node exchanges something with others."""

    def measured(one: Measurement) -> Measurement:
        bad = node in one.nodes and len(one.nodes) > 1 and one.unit != "s"
        return evolve(one, values=tuple(value * PART for value in one.values)) if bad else one

    return evolve(gathered, measurements=tuple(map(measured, gathered.measurements)))


def test_there_are_ten_records() -> None:
    """Of one to six hosts, quiet and busy."""
    assert len(RECORDS) >= 10
    assert {len(read(path).gathered.nodes) for path in RECORDS} >= {1, 2, 3, 4, 6}


@pytest.mark.parametrize("path", RECORDS, ids=named)
def test_healthy_hosts_are_accused_of_nothing(path: Path, tmp_path: Path) -> None:
    """No failure, nothing that could not be tested, and no warning that is not true."""
    code, report = replayed(read(path), tmp_path / "replay")
    assert (code, {fault.what for fault in report.faults} - TRUE_OF_ALL) == (0, set())
    assert report.comparisons


@pytest.mark.parametrize("path", [path for path in RECORDS if len(read(path).gathered.nodes) > 2], ids=named)
def test_a_slow_link_of_one_host_fails_it_alone(path: Path, tmp_path: Path) -> None:
    """All that one host of three or more exchanges with others takes longer: it is named, and nobody else."""
    record = read(path)
    code, report = replayed(evolve(record, gathered=slowed(record.gathered, BAD)), tmp_path / "replay")
    assert (code, [one.node for one in report.nodes if one.verdict == "failure"]) == (3, [BAD])
