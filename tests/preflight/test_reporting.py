"""Reports: the same facts give the same bytes, and every format tells the verdict and where it is wrong."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from primus_core.codec import from_json
from primus_preflight.gathering import read
from primus_preflight.judging import Limits, Report, judge
from primus_preflight.model import Gathered, Measurement
from primus_preflight.reporting import screen, write
from primus_preflight.reporting.story import about
from tests.preflight.clusters import cluster, host

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "preflight-report.schema.json"
FAULTY = cluster(6, devices=2, computes={3: 0.6}, sends={4: 0.25}, links={(0, 2): 0.5}, missing=[5])
BAD = [host(node) for node in (3, 4, 5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a report of six nodes of which three are bad."""
    made = tmp_path_factory.mktemp("report")
    write(judged(FAULTY), made)
    return made


def judged(gathered: Gathered) -> Report:
    return judge(gathered, Limits())


def test_every_format_names_the_verdict_and_the_bad_nodes(folder: Path) -> None:
    """Who reads one of them alone learns that nodes are bad, and which."""
    for name in ("report.md", "report.html", "report.json", "report.junit.xml"):
        text = (folder / name).read_text()
        assert "failure" in text.lower()
        assert [bad for bad in BAD if bad not in text] == [], name
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_the_files_of_nodes_hold_each_node_once(folder: Path) -> None:
    """What Slurm is given excludes the bad nodes, and names the others."""
    assert (folder / "failing_nodes.txt").read_text().splitlines() == BAD
    assert (folder / "passing_nodes.txt").read_text().splitlines() == [host(node) for node in range(3)]


def test_the_json_has_the_documented_layout(folder: Path) -> None:
    """It is what the schema in docs says, and what is read back is the report."""
    text = (folder / "report.json").read_text()
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(json.loads(text))
    assert from_json(Report, text) == judged(FAULTY)
    assert judged(read([folder / "report.json"])) == judged(FAULTY)


def test_junit_has_a_case_for_each_node(folder: Path) -> None:
    """Bad nodes are failures, good ones pass, and a bad link is a case of its own."""
    suite = ET.parse(folder / "report.junit.xml").getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == [*BAD, "between nodes"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("7", "4", "0")


def test_the_screen_ends_with_the_verdict() -> None:
    """The last line is what is left on a terminal; each fault says what to do."""
    lines = screen(judged(FAULTY)).splitlines()
    assert lines[-1].startswith("FAILURE: 3 of 6 nodes should not take part")
    assert max(map(len, lines)) <= 120
    assert sum(line.strip().startswith("->") for line in lines) == 4


def test_a_healthy_cluster_passes_on_every_page(tmp_path: Path) -> None:
    """No node fails, and the file of failing nodes is there and empty."""
    write(judged(cluster(4, devices=1)), tmp_path)
    assert (tmp_path / "failing_nodes.txt").read_text() == ""
    assert "PASS: nothing is wrong on 4 nodes" in (tmp_path / "report.md").read_text()


@settings(max_examples=5, deadline=None, phases=(Phase.generate,))
@given(seed=st.integers(0, 1 << 32))
def test_the_same_facts_give_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Nodes and measurements may arrive in any order."""
    dice = random.Random(seed)
    nodes, measurements = list(FAULTY.nodes), list(FAULTY.measurements)
    dice.shuffle(nodes)
    dice.shuffle(measurements)
    written = []
    for number, gathered in enumerate([FAULTY, evolve(FAULTY, nodes=tuple(nodes), measurements=tuple(measurements))]):
        files = write(judged(gathered), tmp_path_factory.mktemp(f"order{number}"))
        written.append({file.name: file.read_bytes() for file in files})
    assert written[0] == written[1]


def test_hundreds_of_nodes_are_reported_in_seconds(tmp_path: Path) -> None:
    """Of 512 nodes the three bad ones are found, in a time that leaves 4,096 within half a minute."""
    gathered = cluster(512, computes={100: 0.6}, sends={200: 0.25}, missing=[300])
    began = time.process_time()
    report = judged(gathered)
    write(report, tmp_path)
    assert time.process_time() - began < 30 / 8
    assert (tmp_path / "failing_nodes.txt").read_text().splitlines() == [host(node) for node in (100, 200, 300)]


def test_a_test_of_several_workers_without_devices_is_told_as_one_that_ran() -> None:
    """On a host alone, tests between nodes make no sense; one between its workers was measured all the same."""
    alone = cluster(1, devices=0)
    shared = Measurement(test="intra-allreduce", nodes=(0,), size_bytes=1 << 20, values=(1.0,))
    ran = evolve(alone, tests=("intra-allreduce", "inter-p2p"), measurements=(*alone.measurements, shared))
    assert "Tests: intra-allreduce. Not applicable here: inter-p2p." in about(judged(ran))
    assert "Tests: none. Not applicable here: intra-allreduce, inter-p2p." in about(
        judged(evolve(ran, measurements=()))
    )


@pytest.mark.cluster
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler-utils is not installed")
def test_the_first_sheet_of_the_pdf_tells_the_verdict(folder: Path) -> None:
    """The verdict, the bad nodes and what to do are on the first sheet, as text; the charts are on others."""
    command = ["pdftotext", "-l", "1", "-layout", folder / "report.pdf", "-"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "FAILURE: 3 of 6 nodes should not take part" in said
    assert [bad for bad in BAD if bad not in said] == []
    assert "what to do" in said
    assert "Bandwidth by size" not in said


@pytest.mark.cluster
def test_four_thousand_nodes_are_judged_in_half_a_minute() -> None:
    """Files of 4,096 nodes of which three are bad, merged, judged and rendered: 30 s, 1 GB, the three found."""
    command = [sys.executable, ROOT / "benchmarks/preflight_report.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 4,096 nodes should not take part" in done.stdout
