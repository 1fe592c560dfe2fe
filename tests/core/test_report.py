"""From the reports of ranks to one screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from primus_core import report
from primus_core.codec import to_json
from primus_core.errors import ConfigError
from primus_core.files import write_atomic
from primus_core.outcome import Failure, Problem, Raised, RankReport, RunReport
from primus_core.plan import Job, RunPlan, Target, Task
from primus_core.rundir import RunDir


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    task = Task(kind="train", entry="x:y")
    return RunPlan(
        run_id="r",
        run_dir=str(tmp_path / "e" / "runs" / "r"),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=4),
        task=task,
        module="pre",
        job=Job(run_id="r", name="n", task=task, python="python", argv=()),
        launcher="direct",
    )


def rank(number: int, code: int = 0, ended: float = 100.0, **more: object) -> RankReport:
    fields = {"run_id": "r", "host": f"node-{number}", "phase": "train", "started": 40.0, **more}
    return RankReport(rank=number, exit_code=code, ended=ended, **fields)  # type: ignore[arg-type]  # of a test


def failing(number: int, kind: str, text: str, ended: float = 100.0) -> RankReport:
    return rank(number, 3, ended, iteration=12, failure=Failure(type=kind, text=text))


def merged(plan: RunPlan, *ranks: RankReport) -> RunReport:
    rundir = RunDir(Path(plan.run_dir))
    for one in ranks:
        write_atomic(rundir.ranks / f"rank-{one.rank}.json", to_json(one))
    return report.merge(rundir, plan.target.world_size)


def test_all_ranks_in_good_order_are_a_success(plan: RunPlan) -> None:
    """The screen names iteration, loss, duration, logs and checkpoint."""
    result = {"iteration": 100, "loss": 2.87123, "checkpoint": "/w/checkpoints/iter_100"}
    run = merged(plan, rank(0, result={"iteration": 100, "loss": None}), *(rank(n, result=result) for n in (1, 2, 3)))
    assert (run.exit_code, run.first_failure, run.started, run.ended) == (0, None, 40.0, 100.0)
    lines = report.screen(run, plan).splitlines()
    assert lines == [
        "done        iteration 100, loss 2.871, 1 min 00 s",
        f"logs        {Path(plan.run_dir).parents[1]}/logs/pre",
        "checkpoint  /w/checkpoints/iter_100",
    ]


def test_the_first_failing_rank_is_the_cause(plan: RunPlan) -> None:
    """A rank that failed earlier, but only because its peer was gone, is not blamed; the others are counted."""
    run = merged(
        plan,
        failing(0, "DistBackendError", "[gloo] Connection closed by peer [10.0.0.1]", ended=90.0),
        rank(1, 143, 80.0, signal="SIGTERM", signalled_first=True),
        failing(2, "RuntimeError", "out of\nmemory", ended=95.0),
        failing(3, "ValueError", "later", ended=99.0),
    )
    assert (run.first_failure, run.exit_code) == (2, 3)
    screen = report.screen(run, plan)
    assert screen.splitlines()[:2] == [
        "error: rank 2 failed: RuntimeError: out of",
        "  in:  train, iteration 12, on node-2, 55 s after its start",
    ]
    assert "  and: 3 other ranks ended in consequence" in screen
    assert screen.splitlines()[-1] == f"  log: {Path(plan.run_dir).parents[1]}/logs/pre/rank-2/debug.log"
    assert "later" not in screen


def test_when_all_failed_in_consequence_the_silent_rank_is_the_cause(plan: RunPlan) -> None:
    """A run that lost a peer which left no report names that one, its host and last sign of life, and who noticed."""
    log = RunDir(Path(plan.run_dir)).logs("pre") / "rank-2" / "debug.log"
    write_atomic(log, "2026-01-31T09:30:00.123Z r node-b rank-2 pre INFO primus iteration 12\n")
    run = merged(
        plan,
        failing(0, "DistBackendError", "Connection reset by peer", ended=92.0),
        failing(1, "DistBackendError", "Connection reset by peer", ended=91.0),
        failing(3, "DistBackendError", "Connection reset by peer", ended=93.0),
    )
    assert (run.first_failure, run.exit_code) == (2, 3)
    lines = report.screen(run, plan).splitlines()
    assert lines[:4] == [
        "error: rank 2 vanished without a report",
        "  at:  node-b, last heard of at 2026-01-31T09:30:00.123Z",
        "  why: rank 1 noticed: DistBackendError: Connection reset by peer",
        "  in:  train, iteration 12, on node-1, 51 s after its start",
    ]
    assert lines[-2:] == ["  and: 3 other ranks ended in consequence", f"  log: {log}"]


def test_when_all_lost_a_peer_the_earliest_is_shown(plan: RunPlan) -> None:
    """Where every rank left a report and none says more, the first to notice is shown."""
    run = merged(plan, *(failing(n, "DistBackendError", "Connection reset by peer", 95.0 - n) for n in range(4)))
    assert run.first_failure == 3
    assert "3 other ranks ended in consequence" in report.screen(run, plan)


def test_ranks_that_failed_by_themselves_of_the_same_are_counted_apart(plan: RunPlan) -> None:
    """A fault that all ranks have is told once, and the others are not called consequences."""
    same = (failing(n, "ValueError", f"rank {n} cannot read step 7", 90.0 + n) for n in range(3))
    run = merged(plan, *same, rank(3, 143, signal="SIGTERM", signalled_first=True))
    assert "  and: 2 other ranks failed in the same way; 1 other rank ended in consequence" in report.screen(run, plan)


def test_an_exception_is_told_with_its_place_and_where_it_came_from(plan: RunPlan) -> None:
    """Of a failure that nobody explains: the line of code that raised it, and the exceptions before it."""
    failure = Failure(
        type="RuntimeError",
        text="no batch",
        at="/site/loader.py:12 in load",
        chain=(Raised(type="KeyError", text="'tokens'", at="/site/rows.py:3 in row"),),
    )
    screen = report.screen(merged(plan, rank(0, 3, failure=failure), *map(rank, (1, 2, 3))), plan)
    assert screen.splitlines()[2:4] == ["  why: came from KeyError: 'tokens'", "  at:  /site/loader.py:12 in load"]


def test_a_known_cause_is_told_with_its_remedy(plan: RunPlan) -> None:
    """A library's words become plain ones with what was seen and what to do; the rank's last lines would add noise."""
    failure = Failure(type="OSError", text="[Errno 28] No space left on device", at="/site/a.py:1 in f")
    run = merged(plan, rank(0, 3, failure=failure, last_lines=("noise",)), *map(rank, (1, 2, 3)))
    assert run.diagnosis is not None
    assert run.diagnosis.kind == "disk"
    lines = report.screen(run, plan).splitlines()
    assert lines[0] == "error: rank 0 failed: a disk is full, or a quota used up"
    assert lines[2:4] == ["  why: OSError: [Errno 28] No space left on device", "  at:  /site/a.py:1 in f"]
    assert lines[4].startswith("  try: make room (`df -h`")
    assert "noise" not in lines


def test_a_known_cause_may_be_the_origin_of_another_exception(plan: RunPlan) -> None:
    """What a library makes of a full disk is told as a full disk."""
    origin = Raised(type="OSError", text="[Errno 122] Disk quota exceeded")
    failure = Failure(type="CheckpointException", text="write failed", chain=(origin,))
    run = merged(plan, rank(0, 3, failure=failure), *map(rank, (1, 2, 3)))
    assert run.diagnosis is not None
    assert (run.diagnosis.kind, run.diagnosis.why) == ("disk", "OSError: [Errno 122] Disk quota exceeded")


def test_a_kill_for_want_of_memory_is_told_with_both_figures(plan: RunPlan) -> None:
    """SIGKILL while the kernel counted a kill in the rank's cgroup: what it used, and what it might use."""
    killed = rank(0, 137, signal="SIGKILL", out_of_memory=True, peak_memory_bytes=3 << 30, memory_limit_bytes=4 << 30)
    lines = report.screen(merged(plan, killed, *map(rank, (1, 2, 3))), plan).splitlines()
    assert lines[0] == "error: rank 0 failed: killed by the kernel, because memory ran out"
    assert "used up to 3.0 GiB" in lines[2]
    assert "together may use 4.0 GiB" in lines[2]


def test_a_failure_that_primus_explains_looks_like_an_error_of_the_command(plan: RunPlan) -> None:
    """What, where, why and remedy stand on the screen as `primus` itself shows them, without the rank's last lines."""
    problem = Problem(what="the file is damaged", where="a.jsonl:7", why="no JSON\nat all", remedy="write it again")
    failure = Failure(type="RunError", text="a.jsonl:7: the file is damaged\nno JSON", problems=(problem,))
    one = rank(0, 3, phase="data", failure=failure, last_lines=("noise",))
    screen = report.screen(merged(plan, one, rank(1), rank(2), rank(3)), plan)
    assert screen.splitlines() == [
        "error: rank 0 failed: the file is damaged",
        "  at:  a.jsonl:7",
        "  why: no JSON",
        "       at all",
        "  try: write it again",
        "  in:  data, on node-0, 1 min 00 s after its start",
        f"  log: {Path(plan.run_dir).parents[1]}/logs/pre/rank-0/debug.log",
    ]


def test_many_problems_of_a_rank_stay_one_screen(plan: RunPlan) -> None:
    """Eight problems are shown and the others counted; a long explanation is cut."""
    long = "\n".join(map(str, range(100)))
    problems = tuple(Problem(what=f"problem {n}", why=long if n == 0 else "") for n in range(20))
    one = rank(0, 2, failure=Failure(type="ErrorGroup", text="", problems=problems))
    lines = report.screen(merged(plan, one, rank(1), rank(2), rank(3)), plan).splitlines()
    assert [line for line in lines if line.startswith("error:")] == [
        f"error: rank 0 failed: problem {n}" for n in range(8)
    ]
    assert "... and 12 more" in lines
    assert len(lines) < 30


def test_an_explained_failure_is_a_cause_whatever_its_words(plan: RunPlan) -> None:
    """A rank that could not fetch a tokenizer is to blame for the peers that lost it, not the other way round."""
    problem = Problem(what="the hub cannot be asked", why="Connection reset by peer")
    fetching = Failure(type="DependencyError", text="the hub ...\nConnection reset by peer", problems=(problem,))
    lost = failing(1, "DistBackendError", "Connection closed by peer", ended=80.0)
    run = merged(plan, rank(0, 1, 90.0, failure=fetching), lost, rank(2), rank(3))
    assert (run.first_failure, run.exit_code) == (0, 1)


@pytest.mark.parametrize(
    ("one", "cause"),
    [
        (rank(0, 137, signal="SIGKILL", peak_memory_bytes=3 * 1024**3), "the kernel did because memory ran out"),
        (rank(0, 139, signal="SIGSEGV"), "crashed by SIGSEGV"),
        (rank(0, 162, signal="SIGRTMIN"), "killed by SIGRTMIN"),
        (rank(0, 9), "it ended with exit status 9"),
        (failing(0, "KeyError", ""), "rank 0 failed: KeyError\n"),
    ],
)
def test_a_cause_is_told_in_plain_words(plan: RunPlan, one: RankReport, cause: str) -> None:
    """Signals, statuses and exceptions without text are words, not numbers."""
    run = merged(plan, one, rank(1), rank(2), rank(3))
    screen = report.screen(run, plan)
    assert cause in screen
    assert run.exit_code == 3


def test_the_last_lines_are_short_and_few(plan: RunPlan) -> None:
    """The screen stays one screen whatever the rank said last."""
    lines = (*(f"line {n}" for n in range(40)), "x" * 5000, "\x1b[31mred\x1b[0m")
    run = merged(plan, rank(0, 3, last_lines=lines), rank(1), rank(2), rank(3))
    screen = report.screen(run, plan)
    assert len(screen.splitlines()) < 20
    assert max(map(len, screen.splitlines())) < 250
    assert "    red\n" in screen


def test_missing_and_damaged_reports_are_a_failure(plan: RunPlan) -> None:
    """Ranks whose report is absent, torn or of another shape left none."""
    rundir = RunDir(Path(plan.run_dir))
    write_atomic(rundir.ranks / "rank-1.json", '{"run_id": "r", ')
    (rundir.ranks / "rank-2.json").write_bytes(b"\xff\xfe")
    run = merged(plan, rank(0))
    assert (run.exit_code, run.first_failure, len(run.ranks)) == (3, None, 1)
    screen = report.screen(run, plan)
    assert screen.startswith("error: 3 of 4 ranks left no report")
    assert "no report from ranks 1-3" in screen


def test_a_launcher_that_started_no_rank_speaks_for_itself(plan: RunPlan) -> None:
    """When no rank said anything, the launcher's last words are on the screen, in plain words where they are known."""
    rundir = RunDir(Path(plan.run_dir))
    write_atomic(rundir.submission / "host-0.log", "\n".join([*["noise"] * 50, "No module named 'torch'"]))
    lines = report.screen(merged(plan), plan).splitlines()
    assert lines[:2] == [
        "error: no rank could start: a Python package is missing",
        "  why: No module named 'torch'",
    ]
    assert lines[-1] == f"  log: {rundir.submission / 'host-0.log'}"
    assert report.lacks_module(rundir)
    write_atomic(rundir.submission / "host-0.log", "\n".join([*["noise"] * 50, "a strange end"]))
    screen = report.screen(merged(plan), plan)
    assert screen.startswith("error: the launcher 'direct' ended before any rank left a report")
    assert "    a strange end\n" in screen
    assert screen.count("noise") < 12


def test_ranks_that_refuse_to_start_say_why(plan: RunPlan) -> None:
    """The error of a rank that could not open its files is the screen, whatever torchrun says after it."""
    told = ["error: the run's files cannot be written on this node", "  at:  /w/logs", "  why: Not a directory"]
    log = ["noise", *told, *told, "Traceback (most recent call last):", *["  torchrun: No module"] * 40]
    write_atomic(RunDir(Path(plan.run_dir)).submission / "host-0.log", "\n".join(log))
    assert report.screen(merged(plan), plan).splitlines()[:-1] == [
        "error: no rank could start: the run's files cannot be written on this node",
        "  at:  /w/logs",
        "  why: Not a directory",
    ]


def test_a_launcher_that_fails_after_the_ranks_is_told(plan: RunPlan) -> None:
    """Four good ranks and a failing launcher are not called a success, nor a failure of a rank."""
    run = evolve(merged(plan, *map(rank, range(4))), exit_code=3)
    assert report.screen(run, plan).startswith("error: the launcher 'direct' failed after all ranks had succeeded")


@pytest.mark.parametrize(
    ("iteration", "where"),
    [(7, "interrupted after iteration 7, by SIGINT"), (None, "interrupted before the first iteration, by SIGINT")],
)
def test_an_interrupted_run_says_so(plan: RunPlan, iteration: int | None, where: str) -> None:
    """After Ctrl-C the screen does not speak of a failure."""
    stopped = rank(0, 130, signal="SIGINT", signalled_first=True, iteration=iteration)
    run = evolve(merged(plan, stopped, *map(rank, (1, 2, 3))), exit_code=130)
    assert report.screen(run, plan).splitlines()[0] == where


def test_a_killed_launcher_is_the_cause(plan: RunPlan) -> None:
    """Ranks that had to end because their launcher was killed are not blamed for it."""
    ended = [rank(number, 143, signal="SIGTERM", signalled_first=True, iteration=5) for number in range(4)]
    screen = report.screen(evolve(merged(plan, *ended), launcher_signal="SIGKILL"), plan)
    assert screen.startswith("error: the launcher 'direct' was killed by SIGKILL\n  in:  train, iteration 5")


def test_a_killed_launcher_is_the_cause_of_ranks_that_left_nothing(plan: RunPlan) -> None:
    """Those that it took along before they could write a report did not vanish by themselves."""
    left = [
        rank(0, 143, signal="SIGTERM", signalled_first=True),
        failing(1, "DistBackendError", "Connection reset by peer", 95.0),
    ]
    screen = report.screen(evolve(merged(plan, *left), launcher_signal="SIGKILL"), plan)
    assert screen.splitlines()[:3] == [
        "error: the launcher 'direct' was killed by SIGKILL",
        "  and: ranks 2-3 vanished without a report",
        "  and: 2 other ranks ended in consequence",
    ]


def test_a_killed_launcher_is_the_cause_of_a_lost_peer(plan: RunPlan) -> None:
    """A rank that noticed the end of another one before it was told to end is not to blame either."""
    noticed = failing(1, "DistBackendError", "Connection reset by peer", 89.0)
    ended = [rank(number, 143, signal="SIGTERM", signalled_first=True) for number in (0, 2, 3)]
    screen = report.screen(evolve(merged(plan, noticed, *ended), launcher_signal="SIGKILL"), plan)
    assert screen.startswith("error: the launcher 'direct' was killed by SIGKILL\n  in:  ")


def test_the_summary_reads_what_was_written(plan: RunPlan) -> None:
    """report.json is the run's memory: written whole, read back equal, absent before the end."""
    rundir = RunDir(Path(plan.run_dir))
    assert report.read(rundir) is None
    assert "left no report" in report.summary(plan)
    run = merged(plan, *map(rank, range(4)))
    report.write(rundir, run)
    assert report.read(rundir) == run
    assert report.summary(plan) == report.screen(run, plan)
    rundir.report.write_text("{}")
    with pytest.raises(ConfigError):
        report.read(rundir)
    report.clear(rundir)
    assert report.read(rundir) is None
    assert report.merge(rundir, 4).ranks == ()
