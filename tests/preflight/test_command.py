"""`primus preflight` on one host."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from primus_core.cli.main import main
from primus_core.cli.run import headline
from primus_core.codec import from_json
from primus_core.plan import RunPlan
from primus_preflight.model import Gathered
from tests.e2e.support import EXAMPLE
from tests.preflight.nodes import plan
from tests.preflight.sick import install, node, preflight, probe, run_folder
from tests.testbed import faulty_torch

CPU_SECONDS = 1.0
"""Twice what a look at a host may cost on a quiet machine, for a busy one; `benchmarks/startup.py` tells the figure."""


def test_a_host_is_looked_at_without_torch(tmp_path: Path) -> None:
    """Where torch cannot be imported, looks at a host cost little CPU time, and tell facts."""
    (tmp_path / "torch.py").write_text("raise ImportError('there is no torch here')\n")
    tries = [preflight(tmp_path / "out", "--host", path=[tmp_path]) for _ in range(3)]
    assert {one.code for one in tries} <= {0, 3}, tries[0].text
    seen = node(tmp_path / "out")
    assert {one.group for one in seen.probes} == {"host"}
    assert {one.status for one in seen.probes} <= {"ok", "unavailable"}
    assert min(one.cpu_seconds for one in tries) < CPU_SECONDS


@pytest.mark.parametrize(
    ("how", "status", "told"),
    [
        ("hangs", "timeout", "no answer within 1 s"),
        ("crashes", "error", "killed by SIGABRT"),
        ("tells nothing", "error", "told nothing"),
        ("raises", "error", "what is this?"),
    ],
)
def test_a_check_that_does_not_answer_is_never_a_pass(tmp_path: Path, how: str, status: str, told: str) -> None:
    """The node is not judged well, the exit code is 1, and everything else was looked at."""
    done = preflight(tmp_path / "out", "--host", "--probe-seconds=1", path=[install(tmp_path / "site")], SICK=how)
    seen = node(tmp_path / "out")
    assert done.code == 1, done.text
    assert probe(seen).status == status
    assert told in probe(seen).error
    assert {one.status for one in seen.probes if one.group == "host"} <= {"ok", "unavailable", "timeout"}
    assert "sick" in done.text


def test_what_a_third_party_finds_fails_the_node(tmp_path: Path) -> None:
    """A check of an installed package is asked on the node; its error is told, and the exit code is 3."""
    done = preflight(tmp_path / "out", "--host", path=[install(tmp_path / "site")], SICK="finds")
    assert done.code == 3, done.text
    assert [one.summary for one in probe(node(tmp_path / "out")).findings] == ["a cold"]
    assert "a cold" in done.text
    assert (run_folder(tmp_path / "out") / "failing_nodes.txt").read_text() == f"{node(tmp_path / 'out').host}\n"


def test_a_preflight_that_is_planned_first(tmp_path: Path) -> None:
    """The plan goes where the user says, what is asked for into the run's folder, nothing beside the plan."""
    plans = tmp_path / "plans"
    assert preflight(tmp_path / "out", "--host", "--output", str(plans / "mine.json")).code == 0
    plan = from_json(RunPlan, (plans / "mine.json").read_text())
    assert [path.name for path in plans.iterdir()] == ["mine.json"]
    asked = from_json(Gathered, (Path(plan.run_dir) / "preflight" / "asked.json").read_text())
    assert (asked.run_id, asked.expected_nodes, asked.groups) == (plan.run_id, 1, ("host",))


SECRET = 'pass"word-4711'


@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ("raises a secret", 1, "ValueError: ***"),
        ("prints a secret", 1, "told nothing: login with ***"),
        ("finds a secret", 3, "summary ***"),
    ],
)
def test_secrets_are_nowhere(tmp_path: Path, how: str, code: int, told: str) -> None:
    """Whatever a check does with a secret variable: its value is in no file and not on the screen."""
    env = {"SICK": how, "SICK_TOKEN": SECRET}
    done = preflight(tmp_path / "out", "--host", path=[install(tmp_path / "site")], **env)
    assert (done.code, told in done.text) == (code, True), done.text
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(written) > 8
    texts = {path.name: path.read_text(errors="replace") for path in written}
    assert [name for name, text in {**texts, "screen": done.text}.items() if "word-4711" in text] == []
    assert "***" in texts["node-0.json"]


def test_results_are_judged_again(tmp_path: Path) -> None:
    """`primus preflight report` gives the verdict of the preflight itself, from its folder or from single files."""
    assert preflight(tmp_path / "out", "--host", path=[install(tmp_path / "site")], SICK="finds").code == 3
    folder = run_folder(tmp_path / "out")
    assert main(["preflight", "report", str(folder), "--output", str(tmp_path / "again")]) == 3
    assert main(["preflight", "report", str(folder / "node-0.json"), "--output", str(tmp_path / "single")]) == 3
    assert (tmp_path / "again/report.json").read_bytes() == (folder / "report.json").read_bytes()


@pytest.mark.parametrize(("count", "told"), [(1, "1 node (direct)"), (3, "3 nodes (direct)")])
def test_the_first_line_counts_nodes(count: int, told: str) -> None:
    """Of which each has one agent."""
    assert told in headline(plan(count))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--tests", "gemmm"), "gemmm"),
        (("--timeout", "0"), "--timeout 0"),
        (("--netwrok",), "did you mean --network?"),
        (("report", "nowhere"), "nowhere"),
        (("--limits", "nowhere.yaml"), "nowhere.yaml"),
        (("--baseline", "nowhere.json"), "nowhere.json"),
    ],
)
def test_wrong_arguments(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They end the command with 2 before anything is looked at or written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIMUS_WORKSPACE", str(tmp_path / "out"))
    assert main(["preflight", *words]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "test", "told"),
    [
        ("products", "gemm", "1 of 128 rows of the product are wrong"),
        ("sums", "intra-allreduce", "1 of 16384 elements are wrong"),
    ],
)
def test_a_host_that_gives_wrong_values(
    tmp_path: Path, what: Literal["sums", "products"], test: str, told: str
) -> None:
    """All tests of one host whose torch errs in one element of a product, or of a sum: it fails by its name."""
    small = ("--gemm-size=128", "--sizes=64K", "--iterations=2")
    done = preflight(tmp_path / "out", "--perf-test", *small, path=[faulty_torch.install(tmp_path / "site", what)])
    host = node(tmp_path / "out").host
    assert done.code == 3, done.text
    assert f"failure  {host}: gives wrong results" in done.text
    assert f"{test} " in done.text
    assert told in done.text
    assert (run_folder(tmp_path / "out") / "failing_nodes.txt").read_text() == f"{host}\n"


def test_an_accelerator_that_was_asked_for(tmp_path: Path) -> None:
    """On a host that has none, --gpu cannot be done, and says so; nobody misses it who did not ask."""
    asked = preflight(tmp_path / "asked", "--gpu")
    unasked = preflight(tmp_path / "unasked")
    assert (asked.code, "no accelerator" in asked.text) == (1, True), asked.text
    assert (unasked.code, "no accelerator" in unasked.text) == (0, False), unasked.text


def test_the_nodes_of_an_experiment(tmp_path: Path) -> None:
    """With --config its own checks come first, and what it gives its ranks is what the looks see."""
    experiment = tmp_path / "exp.yaml"
    site = install(tmp_path / "site")
    experiment.write_text(f"extends: {EXAMPLE}\nenv: {{SICK: finds}}\n")
    done = preflight(tmp_path / "out", "--host", "--config", str(experiment), path=[site])
    assert done.code == 3, done.text
    assert [one.summary for one in probe(node(tmp_path / "out")).findings] == ["a cold"]
    experiment.write_text(f"extends: {EXAMPLE}\nmodules: {{pre_trainer: {{overrides: {{seq_lenght: 64}}}}}}\n")
    wrong = preflight(tmp_path / "out", "--host", "--config", str(experiment), path=[site])
    assert (wrong.code, "seq_length" in wrong.text) == (2, True), wrong.text
