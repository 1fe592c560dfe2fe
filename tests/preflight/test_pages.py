"""Pages as people see them: in a browser, on large and small screens, by day and by night."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from primus_core.cli.main import main
from primus_preflight.judging import Limits, judge
from primus_preflight.model import Gathered
from primus_preflight.reporting import write
from tests.preflight.clusters import cluster, host
from tests.testbed import browser
from tests.testbed.browser import Seen, opened

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(browser.lacking()), reason=browser.lacking())]

EXAMPLE = Path(__file__).parents[2] / "examples/llama-tiny.yaml"
FAULTY = cluster(6, devices=2, computes={3: 0.6}, sends={4: 0.25}, links={(0, 2): 0.5}, missing=[5])
LONG = "{}.of-a-very-long-name-in.compute.internal.example.com"


def named(gathered: Gathered, pattern: str) -> Gathered:
    """The same with other names of hosts."""
    hosts = tuple(pattern.format(name) for name in gathered.hosts)
    return evolve(gathered, hosts=hosts, nodes=tuple(evolve(node, host=hosts[node.node]) for node in gathered.nodes))


def check(seen: Seen, charts: int) -> None:
    """Nothing is complained of, nothing is wider than the screen, and charts can be read."""
    assert seen.errors == ()
    assert seen.wider <= 0
    assert len(seen.charts) == charts
    for chart in seen.charts:
        assert (chart.width >= 600, chart.height >= 40, chart.shapes > 8) == (True, True, True)
        assert chart.cut == ()


@pytest.mark.parametrize("pattern", ["{}", LONG])
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (500, True)])
def test_a_report_is_read_on_any_screen(tmp_path: Path, pattern: str, width: int, dark: bool) -> None:
    """The verdict, all names of nodes and all charts are there; dark screens have light words."""
    write(judge(named(FAULTY, pattern), Limits()), tmp_path)
    seen = opened(tmp_path / "report.html", tmp_path, width=width, dark=dark)
    check(seen, charts=3)
    assert "FAILURE: 3 of 6 nodes should not take part" in seen.text
    assert [name for name in map(pattern.format, FAULTY.hosts) if name not in seen.text] == []
    assert (brightness(seen.ink) > brightness(seen.ground)) == dark
    assert abs(brightness(seen.ink) - brightness(seen.ground)) > 150


def test_a_report_of_many_nodes_is_read(tmp_path: Path) -> None:
    """Of 300 nodes those that are bad are on the page, and the charts show the slowest."""
    write(judge(cluster(300, computes={7: 0.6}, sends={200: 0.25}), Limits()), tmp_path)
    seen = opened(tmp_path / "report.html", tmp_path)
    check(seen, charts=3)
    assert "FAILURE: 2 of 300 nodes should not take part" in seen.text
    assert (host(7) in seen.text, host(200) in seen.text) == (True, True)


def test_a_projection_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page of a projection has its verdict, its stages and a chart."""
    page = tmp_path / "page.html"
    words = ["--config", str(EXAMPLE), "--gpu", "MI300X", "--html", str(page)]
    assert main(["projection", "memory", *words, "pipeline_model_parallel_size=2", "--gpus", "4"]) == 0
    capsys.readouterr()
    seen = opened(page, tmp_path, width=500)
    check(seen, charts=1)
    assert "stage 1" in seen.text


def brightness(colour: str) -> float:
    """Of a colour as browsers tell it, 0 to 255."""
    parts = [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return sum(parts) / 3
