"""Whole ranks: real parents and children that run small tasks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from primus_core.codec import from_json, to_json
from primus_core.experiment import Value
from primus_core.log.metrics import NAMES
from primus_core.outcome import RankReport
from primus_core.patching import fingerprint_target
from primus_core.plan import Job, Layout, PatchSpec, RunPlan, Settings, Target, Task, Translation

TASKS = Path(__file__).parent / "tasks"
SECRET = 'hush "quoted" \\ value'


@frozen(kw_only=True)
class Ended:
    """A rank that is over."""

    code: int
    stdout: str
    stderr: str
    run_dir: Path
    rank: int = 0

    @property
    def report(self) -> RankReport:
        return from_json(RankReport, (self.run_dir / f"ranks/rank-{self.rank}.json").read_text())

    @property
    def logs(self) -> Path:
        return self.run_dir.parent.parent / "logs" / "trainer" / f"rank-{self.rank}"

    def log(self, level: str) -> str:
        return (self.logs / f"{level}.log").read_text()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.logs / "metrics.jsonl").read_text().splitlines()]


@frozen(kw_only=True)
class Ranks:
    """Starts ranks whose experiment is in a folder of the test."""

    folder: Path

    def plan(self, entry: str, **more: Any) -> RunPlan:
        task = Task(kind="script", entry=f"rank_tasks:{entry}", arguments=more.pop("arguments", {}))
        plan = RunPlan(
            run_id="run1",
            run_dir=str(self.folder / "exp/runs/run1"),
            target=Target(accelerator="cpu", library_version="", ranks_per_node=1),
            task=task,
            module="trainer",
            job=Job(run_id="run1", name="t", task=task, python=sys.executable, argv=()),
            launcher="single",
            secrets=("HUB_TOKEN",),
        )
        return evolve(plan, **more)

    def start(self, plan: RunPlan, **env: str) -> subprocess.Popen[str]:
        path = Path(plan.run_dir) / "plan.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(plan))
        return subprocess.Popen(
            [sys.executable, "-m", "primus_core.rank", str(path)],
            env=self.environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHONPATH": f"{TASKS}:{self.folder / 'site'}", "HUB_TOKEN": SECRET, **more}

    def run(self, plan: RunPlan | str, **env: str) -> Ended:
        made = self.plan(plan) if isinstance(plan, str) else plan
        return self.end(made, self.start(made, **env), rank=int(env.get("RANK", 0)))

    def end(self, plan: RunPlan, process: subprocess.Popen[str], rank: int = 0) -> Ended:
        stdout, stderr = process.communicate(timeout=30)
        return Ended(code=process.returncode, stdout=stdout, stderr=stderr, run_dir=Path(plan.run_dir), rank=rank)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def settings(**values: Value) -> Settings:
    return Settings(values=values)


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read the console up to a line that holds the text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the rank ended without saying {text!r}")


def test_a_rank_that_works_reports_its_result(ranks: Ranks) -> None:
    """A finished rank exits 0 and its report has phase, iteration, result, times and memory."""
    ended = ranks.run("works")
    report = ended.report
    assert (ended.code, ended.stderr) == (0, "")
    assert (report.run_id, report.rank, report.phase, report.iteration) == ("run1", 0, "done", 3)
    assert (report.exit_code, report.signal, report.failure) == (0, None, None)
    assert report.result == {"loss": 2.5}
    assert report.peak_memory_bytes > 10_000_000
    assert 0 <= report.ended - report.started < 30
    assert not list((ended.run_dir / "ranks").glob("*.stacks"))


def test_the_console_has_metrics_notices_and_own_warnings_only(ranks: Ranks) -> None:
    """Plain console: iterations, notices, Primus' warnings and everybody's errors, with the rank; no library noise."""
    ended = ranks.run("works")
    assert ended.stdout.splitlines() == [
        "iteration 1/3  loss 2.500  lr 1.0e-03  1,000 tokens/s  0.5 s/step  1 s left",
        "iteration 2/3  loss 2.500  lr 1.0e-03  1,000 tokens/s  0.5 s/step  1 s left",
        "iteration 3/3  loss 2.500  lr 1.0e-03  1,000 tokens/s  0.5 s/step",
        "all is well",
        'warning, rank 0: mind the gap where="two words" line="a\\nb"',
        "error, rank 0: library failure",
    ]


def test_log_lines_have_fixed_columns(ranks: Ranks) -> None:
    """Each line says UTC time, run, host, rank, module, level, source, event and values."""
    lines = ranks.run("works").log("debug").splitlines()
    columns = re.compile(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z run1 \S+ rank-0 trainer (DEBUG|INFO|WARNING|ERROR) \S+ .+"
    )
    assert [line for line in lines if not columns.fullmatch(line)] == []
    said = {line.split(" ", 5)[5] for line in lines}
    assert {
        "DEBUG primus fine detail depth=3",
        'WARNING primus mind the gap where="two words" line="a\\nb"',
        "WARNING somelib.inner library chatter",
        "INFO primus_plugin structured answer=42",
        "INFO stdout printed line",
        "INFO stderr on stderr",
        "INFO stdout from C",
        "INFO primus all is well",
    } <= said
    assert any("WARNING py.warnings" in line and "deprecated thing" in line for line in lines)


@pytest.mark.parametrize(
    ("level", "has", "lacks"),
    [
        ("info", ["printed line", "mind the gap", "library failure"], ["fine detail"]),
        ("warning", ["mind the gap", "library failure"], ["printed line", "fine detail"]),
        ("error", ["library failure"], ["mind the gap"]),
    ],
)
def test_a_level_file_holds_its_level_and_above(ranks: Ranks, level: str, has: list[str], lacks: list[str]) -> None:
    """info.log lacks debug records, warning.log also infos, error.log has errors alone."""
    text = ranks.run("works").log(level)
    assert all(part in text for part in has)
    assert not any(part in text for part in lacks)


def test_sink_levels_are_obeyed(ranks: Ranks) -> None:
    """file_sink_level thins the files, stderr_sink_level the console."""
    plan = ranks.plan("works", settings=settings(file_sink_level="WARNING", stderr_sink_level="ERROR"))
    ended = ranks.run(plan)
    assert "printed line" not in ended.log("debug")
    assert "mind the gap" in ended.log("debug")
    assert "mind the gap" not in ended.stdout
    assert "library failure" in ended.stdout


def test_an_info_console_shows_libraries_but_never_their_output(ranks: Ranks) -> None:
    """With stderr_sink_level INFO records of libraries are shown; what they print is not."""
    stdout = ranks.run(ranks.plan("works", settings=settings(stderr_sink_level="info"))).stdout
    assert "warning, rank 0: library chatter" in stdout
    assert "info, rank 0: structured answer=42" in stdout
    assert "printed line" not in stdout


def test_metrics_have_all_columns_and_append_over_restarts(ranks: Ranks) -> None:
    """metrics.jsonl has every column on each line, null where there is no figure, and the id of its run."""
    ranks.run("works")
    second = ranks.run(ranks.plan("works", run_id="run2", run_dir=str(ranks.folder / "exp/runs/run2")))
    assert [(row["run_id"], row["iteration"]) for row in second.rows] == [
        (run, iteration) for run in ("run1", "run2") for iteration in (1, 2, 3)
    ]
    assert all(tuple(row) == NAMES for row in second.rows)
    assert second.rows[0]["mfu"] is None
    assert second.log("debug").count("printed line") == 2


def test_a_metric_that_does_not_exist_is_refused(ranks: Ranks) -> None:
    """A back end that invents a column fails at its first row."""
    failure = ranks.run("unknown_metric").report.failure
    assert failure is not None
    assert "no such metric: perplexity" in failure.text


def test_other_ranks_are_silent_but_for_warnings(ranks: Ranks) -> None:
    """Rank 1 writes its own files; its notices and metrics are not on the console, its warnings are."""
    ended = ranks.run("works", RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
    assert [line.partition(":")[0] for line in ended.stdout.splitlines()] == ["warning, rank 1", "error, rank 1"]
    assert len(ended.rows) == 3
    assert {row["rank"] for row in ended.rows} == {1}


def test_events_are_forwarded_to_a_host_that_renders(ranks: Ranks) -> None:
    """With PRIMUS_CONSOLE=events the console's lines are events with rank and host, metrics not thinned."""
    lines = ranks.run("works", PRIMUS_CONSOLE="events").stdout.removesuffix("\n").split("\n")
    assert all(line.startswith("\x1e") for line in lines)
    events = [json.loads(line[1:]) for line in lines]
    assert [event["row"]["iteration"] for event in events if event["kind"] == "metrics"] == [1, 2, 3]
    assert [event["text"] for event in events if event["kind"] == "notice"] == ["all is well"]
    assert {"import", "script", "done"} <= {event["name"] for event in events if event["kind"] == "phase"}
    assert all(event["rank"] == 0 and event["host"] for event in events)


def test_a_killed_rank_is_reported(ranks: Ranks) -> None:
    """SIGKILL: exit code 137, and the report knows phase, iteration and the last words."""
    ended = ranks.run("killed")
    report = ended.report
    assert (ended.code, report.exit_code, report.signal) == (137, 137, "SIGKILL")
    assert (report.phase, report.iteration, report.signalled_first) == ("script", 2, False)
    assert "last words" in report.last_lines
    assert "error, rank 0: killed by SIGKILL in phase script, iteration 2" in ended.stdout


def test_a_crash_is_reported_with_its_stack(ranks: Ranks) -> None:
    """SIGSEGV: the report has the Python stack, which is also in the rank's stacks file."""
    ended = ranks.run("crashes")
    failure = ended.report.failure
    assert ended.code == 128 + signal.SIGSEGV
    assert failure is not None
    assert (failure.type, failure.text) == ("SIGSEGV", "Fatal Python error: Segmentation fault")
    assert "in crashes" in failure.traceback
    assert "in crashes" in (ended.run_dir / "ranks/rank-0.stacks").read_text()


def test_a_hard_exit_is_reported(ranks: Ranks) -> None:
    """os._exit(7) is exit code 7 with the phase it happened in."""
    ended = ranks.run("leaves_hard")
    assert (ended.code, ended.report.phase, ended.report.failure) == (7, "script", None)
    assert "ended with exit code 7 in phase script" in ended.log("error")


@pytest.mark.parametrize("code", [0, 5])
def test_sys_exit_keeps_its_code(ranks: Ranks, code: int) -> None:
    """SystemExit, a trainer's graceful early exit included, decides the exit code."""
    assert ranks.run(ranks.plan("leaves_softly", arguments={"code": code})).code == code


@pytest.mark.parametrize(
    ("entry", "code", "kind", "text"),
    [
        ("raises", 3, "ValueError", "the loss is gone"),
        ("refuses", 2, "ConfigError", "exp.yaml:7: vocabulary too large\n300 > 256\nuse another tokenizer"),
        ("returns_nothing", 3, "RunError", "rank_tasks:returns_nothing returned NoneType, not a map"),
        ("is_not_there", 1, "DependencyError", "rank_tasks has no function 'is_not_there'\nInstall"),
    ],
)
def test_an_exception_is_reported(ranks: Ranks, entry: str, code: int, kind: str, text: str) -> None:
    """A Primus error keeps its exit code, any other exception is 3; type, text and traceback are in the report."""
    ended = ranks.run(entry)
    failure = ended.report.failure
    assert ended.code == code
    assert failure is not None
    assert failure.type == kind
    assert failure.text.startswith(text)
    assert "Traceback" in failure.traceback
    assert f"error, rank 0: {kind}: {text.splitlines()[0]}" in ended.stdout
    assert len(ended.log("error").splitlines()) == 1


def test_torchrun_is_told_the_reason(ranks: Ranks, tmp_path: Path) -> None:
    """The error file has message, traceback and whole-second time in torchrun's layout."""
    ended = ranks.run("raises", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    message = json.loads((tmp_path / "error.json").read_text())["message"]
    assert message["message"] == "ValueError: the loss is gone"
    assert "in raises" in message["extraInfo"]["py_callstack"]
    assert int(message["extraInfo"]["timestamp"]) == int(ended.report.ended)


def test_a_flood_of_output_reaches_the_log_whole(ranks: Ranks) -> None:
    """20 MB of lines are all in the log, none on the console."""
    ended = ranks.run("floods")
    assert ended.log("info").count("x" * 99) == 200_000
    assert ended.stdout == ""


def test_an_unfinished_line_is_kept(ranks: Ranks) -> None:
    """A last line without newline is in log and report."""
    ended = ranks.run("unfinished_line")
    assert "stdout no newline at the end\n" in ended.log("info")
    assert ended.report.last_lines[-1] == "no newline at the end"


def test_odd_bytes_become_readable(ranks: Ranks) -> None:
    """Bytes that are no UTF-8 and control characters are escaped, colours removed."""
    assert r"stdout latin \xe9 and red and a bell \x07" in ranks.run("not_utf8").log("info")


def test_secrets_are_nowhere(ranks: Ranks, tmp_path: Path) -> None:
    """A secret's value is in no file and on no console, however it was said; *** stands for it."""
    ended = ranks.run("tells_secrets", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = [path.read_text() for path in files] + [ended.stdout, ended.stderr]
    forms = (SECRET, json.dumps(SECRET)[1:-1])
    assert [text for text in texts if any(form in text for form in forms)] == []
    log = ended.log("info")
    assert all(part in log for part in ("token=***", "split *** end", "logged *** value=", "noticed ***"))
    assert ended.report.failure is not None
    assert ended.report.failure.text == "raised ***"


def test_signals_reach_the_child_once(ranks: Ranks) -> None:
    """USR1 and TERM are forwarded; HUP counts as TERM, and a repeated one is not passed on."""
    plan = ranks.plan("catches_signals")
    process = ranks.start(plan)
    wait_for(process, "ready")
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    ended = ranks.end(plan, process)
    assert ended.code == 0
    assert ended.report.result == {"seen": ["SIGUSR1", "SIGTERM"]}
    assert ended.report.signalled_first


def test_a_child_that_does_not_end_is_killed_in_time(ranks: Ranks) -> None:
    """A rank that ignores SIGTERM is killed before torchrun's own time-out, and reported."""
    plan = ranks.plan("ignores_term")
    process = ranks.start(plan, TORCH_ELASTIC_SHUTDOWN_TIMEOUT="1.5")
    wait_for(process, "ready")
    began = time.monotonic()
    process.terminate()
    ended = ranks.end(plan, process)
    assert 0.9 < time.monotonic() - began < 5
    assert (ended.code, ended.report.signal, ended.report.signalled_first) == (137, "SIGKILL", True)
    assert "did not end in time after SIGTERM" in ended.log("error")


def test_ctrl_c_leaves_nothing_running(ranks: Ranks) -> None:
    """SIGINT ends child, helpers and daemons; the rank exits 130 and is no failure of its own."""
    plan = ranks.plan("waits_with_helpers")
    process = ranks.start(plan)
    wait_for(process, "asleep")
    process.send_signal(signal.SIGINT)
    ended = ranks.end(plan, process)
    assert (ended.code, ended.report.signal, ended.report.signalled_first) == (130, "SIGINT", True)
    assert ended.report.failure is None
    assert not _running(plan.run_dir, "sleep 61", "sleep 62")


def test_helpers_that_hold_the_pipes_are_ended_and_named(ranks: Ranks) -> None:
    """What a rank leaves behind delays its end by seconds only, is killed and named in a warning."""
    plan = ranks.plan("leaves_helpers")
    began = time.monotonic()
    ended = ranks.run(plan)
    assert time.monotonic() - began < 10
    assert ended.code == 0
    assert "killed 3 processes that the rank left behind" in ended.stdout
    assert not _running(plan.run_dir, "sleep 61", "sleep 62")


def test_a_killed_parent_takes_the_child_along(ranks: Ranks) -> None:
    """SIGKILL of the parent ends the child too."""
    plan = ranks.plan("sleeps")
    process = ranks.start(plan)
    wait_for(process, "asleep")
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while _running(plan.run_dir) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _running(plan.run_dir)


def _running(run_dir: str, *commands: str) -> list[str]:
    """Live processes that belong to a run: its ranks by the plan's path, and the given commands of this test's helpers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if run_dir in command or command in commands:
            found.append(command)
    return found


def test_usr2_writes_stacks(ranks: Ranks) -> None:
    """SIGUSR2 writes every thread's stack to the rank's stacks file, and the rank goes on."""
    plan = ranks.plan("catches_signals")
    process = ranks.start(plan)
    wait_for(process, "ready")
    process.send_signal(signal.SIGUSR2)
    time.sleep(0.3)
    process.terminate()
    ended = ranks.end(plan, process)
    assert ended.code == 0
    assert "in catches_signals" in (ended.run_dir / "ranks/rank-0.stacks").read_text()


def test_a_rank_without_launcher_numbers_itself(ranks: Ranks) -> None:
    """Without RANK it is the only rank, with a free port; thread settings stay, arguments and input are empty."""
    result = ranks.run("environment").report.result
    assert {name: result[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")} == {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
    }
    assert 0 < int(str(result["MASTER_PORT"])) < 65536
    assert (result["OMP_NUM_THREADS"], result["argv"], result["stdin"]) == (None, 1, "")


def test_preparation_runs_once_and_all_ranks_get_its_result(ranks: Ranks) -> None:
    """Rank 0 prepares, before torch is imported; the other waits for the file; a restart keeps it."""
    count = ranks.folder / "count"
    data = Task(kind="data", entry="rank_tasks:prepares", arguments={"count": str(count)})
    plan = ranks.plan("uses_preparation", prepare=(data,))
    other = ranks.start(plan, RANK="1", WORLD_SIZE="2")
    first = ranks.run(plan, RANK="0", WORLD_SIZE="2")
    again = ranks.run(plan, RANK="0", WORLD_SIZE="2")
    for ended in (ranks.end(plan, other, rank=1), first, again):
        assert ended.report.result == {"prepared": {"torch": False, "number": 1}}
    assert count.read_text() == "x"


def test_an_unreadable_plan_is_one_screen(tmp_path: Path) -> None:
    """A plan that this node cannot read exits 1 with path and remedy, without a traceback."""
    command = [sys.executable, "-m", "primus_core.rank", str(tmp_path / "plan.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert "the plan cannot be read on this node" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_parent_imports_only_the_standard_library() -> None:
    """Nothing that the parent imports comes from an installed package other than primus_core."""
    code = (
        "import sys; before = set(sys.modules); import primus_core.rank.parent\n"
        "top = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(top - set(sys.stdlib_module_names) - {'primus_core'}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
