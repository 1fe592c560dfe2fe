"""`primus logs`: what the ranks of a run logged."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from primus_core.cli.main import main
from primus_core.errors import ConfigError
from primus_core.log import wire
from primus_core.log.records import Origin, head, utf8
from primus_core.logview.reading import Logs, merged
from primus_core.logview.selection import Selection, moment, some_ranks
from primus_core.rank.files import UNLIMITED, Limits, LogFiles
from tests.core.resolving import OVERRIDES, resolved

START = 1769851800.0
"""2026-01-31 09:30:00 UTC."""


@frozen(kw_only=True)
class Rank:
    """Writes the log of a rank as its parent process does."""

    origin: Origin
    files: LogFiles

    def record(self, second: float, event: str, level: str = "info", source: str = "primus", **values: object) -> None:
        line = wire.encode_record(level, event, source, values, START + second)[:-1]
        columns = utf8(self.origin.columns)
        self.files.append(level, wire.completed(wire.Run(level, [line]), columns) + b"\n")
        self.files.flush()

    def prints(self, second: float, *lines: str, source: str = "stderr") -> None:
        for line in lines:
            self.files.append("info", utf8(head(self.origin, START + second, "info", source) + line + "\n"))
        self.files.flush()


@frozen(kw_only=True)
class Cluster:
    """A run below a folder, with as many ranks as are asked for."""

    folder: Path
    run_id: str = "run1"

    @property
    def run(self) -> Path:
        return self.folder / "runs" / self.run_id

    def plan(self) -> Cluster:
        self.run.mkdir(parents=True)
        told = {"run_id": self.run_id, "run_dir": str(self.run), "module": "trainer", "task": {"kind": "train"}}
        (self.run / "plan.json").write_text(json.dumps(told))
        latest = self.run.parent / "latest"
        latest.unlink(missing_ok=True)
        latest.symlink_to(self.run_id)
        return self

    def rank(self, rank: int, limits: Limits = UNLIMITED, module: str = "trainer") -> Rank:
        origin = Origin(self.run_id, f"node{rank // 8}", rank, module)
        return Rank(origin=origin, files=LogFiles(str(self.folder / f"logs/{module}/rank-{rank}"), "debug", limits))

    def end(self) -> None:
        (self.run / "report.json").write_text("{}")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(folder=tmp_path / "output/team/me/exp").plan()


Shown = Callable[..., list[str]]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """Runs `primus logs` in this process; returns its lines."""

    def run(*words: object) -> list[str]:
        code = main(["logs", *map(str, words)])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out.splitlines()

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*words: object) -> str:
        assert main(["logs", *map(str, words)]) == 2
        return capsys.readouterr().err

    return run


def test_ranks_are_merged_by_time(cluster: Cluster, shown: Shown) -> None:
    """Each line has time, rank, host, level and source; the date stands where it changes; equal times go by rank."""
    for rank in (10, 2):
        one = cluster.rank(rank)
        one.record(rank / 10, "begins", lr=0.1)
        one.record(5, "together", "warning", "some lib")
        one.record(86400, "next day", "debug")
        one.record(86400 + rank, "next day", "error")
    assert shown(cluster.run) == [
        "2026-01-31 UTC",
        "09:30:00.200  rank  2 node0  INFO    primus  begins lr=0.1",
        "09:30:01.000  rank 10 node1  INFO    primus  begins lr=0.1",
        "09:30:05.000  rank  2 node0  WARNING some_lib  together",
        "09:30:05.000  rank 10 node1  WARNING some_lib  together",
        "2026-02-01 UTC",
        "09:30:02.000  rank  2 node0  ERROR   primus  next day",
        "09:30:10.000  rank 10 node1  ERROR   primus  next day",
    ]


def test_what_is_shown_can_be_chosen(cluster: Cluster, shown: Shown) -> None:
    """By rank, level, time and pattern, together, and rank after rank."""
    for rank in range(10):
        one = cluster.rank(rank)
        one.record(rank, "odd" if rank % 2 else "even", "error" if rank > 5 else "info", n=rank)
        one.record(20, "fine", "debug")

    def numbers(*words: str) -> list[int]:
        lines = shown(cluster.run, *words)
        return [int(found[1]) for line in lines if (found := re.search(r"n=(\d)", line))]

    assert numbers("--rank", "3,7-9") == [3, 7, 8, 9]
    assert numbers("--level", "ERROR") == [6, 7, 8, 9]
    assert numbers("--since", "2026-01-31T09:30:04Z", "--grep", "o[d]+ n") == [5, 7, 9]
    assert numbers("--grep", "nothing") == []
    assert len(shown(cluster.run, "--level", "debug", "--grep", "fine")) == 11
    lines = shown(cluster.run, "--no-merge", "--level", "debug")
    assert [line.split()[2] for line in lines if "rank" in line] == [str(n) for n in range(10) for _ in "ab"]


def test_a_run_is_found(cluster: Cluster, shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its folder, plan, experiment's folder, or as the newest below ./output; records of other runs are left out."""
    cluster.rank(0).record(1, "of the first")
    second = Cluster(folder=cluster.folder, run_id="run2").plan()
    second.rank(0).record(2, "of the second")
    os.utime(cluster.run / "plan.json", (1, 1))
    monkeypatch.chdir(tmp_path)
    ends = {
        words: [line.rsplit(" ", 1)[1] for line in shown(*words)[1:]]
        for words in ((), (cluster.folder,), (second.run / "plan.json",), (cluster.run,))
    }
    assert list(ends.values()) == [["second"], ["second"], ["second"], ["first"]]


def test_a_run_is_found_by_its_experiments_file(
    tmp_path: Path, shown: Shown, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file names the folder; one that was never run is told."""
    monkeypatch.chdir(tmp_path)
    experiment = resolved(tmp_path, OVERRIDES)
    assert "the experiment has not been run" in refused("exp.yaml")
    Cluster(folder=Path(experiment.folder)).plan().rank(0).record(1, "of the file")
    assert shown("exp.yaml")[1].endswith("of the file")


def test_other_modules_have_logs_too(cluster: Cluster, shown: Shown, refused: Callable[..., str]) -> None:
    """--module shows those of another module; one that has none is refused with those that have."""
    cluster.rank(0).record(1, "trains")
    cluster.rank(0, module="export").record(1, "exports")
    assert shown(cluster.run, "--module", "export")[1:] == ["09:30:01.000  rank 0 node0  INFO    primus  exports"]
    assert "there are: export, trainer" in refused(cluster.run, "--module", "eval")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "1"], "there are logs of rank 0"),
        (["--rank", "2-1"], "write `--rank 3,7-9`"),
        (["--rank", "a"], "it is no list of ranks"),
        (["--level", "loud"], "one of debug, info, warning, error"),
        (["--since", "soon"], "write `10m`"),
        (["--grep", "("], "it is no regular expression"),
    ],
)
def test_a_wrong_choice_is_refused(cluster: Cluster, refused: Callable[..., str], words: list[str], said: str) -> None:
    """Each with what would be right."""
    cluster.rank(0).record(1, "x")
    assert said in refused(cluster.run, *words)


def test_a_run_without_logs_is_told(cluster: Cluster, refused: Callable[..., str]) -> None:
    """Nothing was logged yet: --follow would wait."""
    assert "`--follow` waits for it" in refused(cluster.run)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90s", "2026-01-31T09:28:30.000Z"),
        ("1h30m", "2026-01-31T08:00:00.000Z"),
        ("0.5d", "2026-01-30T21:30:00.000Z"),
        ("9:15", "2026-01-31T09:15:00.000Z"),
        ("09:45:10", "2026-01-30T09:45:10.000Z"),
        ("2026-01-02", "2026-01-02T00:00:00.000Z"),
        ("2026-01-02 10:00+01:00", "2026-01-02T09:00:00.000Z"),
        ("2026-01-31T09:30:00.123Z", "2026-01-31T09:30:00.123Z"),
    ],
)
def test_since_is_a_duration_or_a_time(text: str, time: str) -> None:
    """A duration before now, the latest such time of day, or a date; UTC where no zone is given."""
    assert moment(text, datetime.fromtimestamp(START, timezone.utc)) == time


@pytest.mark.parametrize("text", ["", "10", "m", "25:00", "2026-13-01", "99999999999d"])
def test_since_is_nothing_else(text: str) -> None:
    """What is no time is refused."""
    with pytest.raises(ConfigError, match="--since"):
        moment(text, datetime.fromtimestamp(START, timezone.utc))


TRACE = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    x", "", "ValueError: bad"]
CHAINED = [*TRACE, "", "During handling of the above exception, another exception occurred:", "", *TRACE]


@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_a_printed_traceback_stays_whole(cluster: Cluster, shown: Shown, prefix: str) -> None:
    """Lines of another rank do not come between its lines, a pattern finds it as a whole, and what follows is apart."""
    one, other = cluster.rank(0), cluster.rank(1)
    for number, line in enumerate(CHAINED):
        one.prints(number / 10, f"{prefix}{line}".rstrip())
        other.record(number / 10, "meanwhile")
    one.prints(9, "after it")
    lines = shown(cluster.run)
    assert lines[1].endswith(f"stderr  {prefix}Traceback (most recent call last):")
    more = [line.rstrip() for line in lines[2 : 1 + len(CHAINED)]]
    assert more == [f"    {prefix}{line}".rstrip() for line in CHAINED[1:]]
    assert lines[-1].endswith("stderr  after it")
    assert len(shown(cluster.run, "--grep", "ValueError")) == 1 + len(CHAINED)


def test_a_logged_traceback_is_in_lines(cluster: Cluster, shown: Shown) -> None:
    """What a file has in one line is readable; as JSON it is a field."""
    cluster.rank(0).record(1, "failed", "error", step=3, traceback="\n".join(TRACE) + "\n")
    text = shown(cluster.run)
    assert text[1:] == ["09:30:01.000  rank 0 node0  ERROR   primus  failed step=3", *(f"    {line}" for line in TRACE)]
    (line,) = shown(cluster.run, "--format", "json")
    assert json.loads(line) == {
        "time": "2026-01-31T09:30:01.000Z",
        "run_id": "run1",
        "module": "trainer",
        "host": "node0",
        "rank": 0,
        "level": "error",
        "source": "primus",
        "text": "failed step=3",
        "traceback": "\n".join(TRACE),
    }


def test_files_that_were_put_aside_are_read_too(cluster: Cluster, shown: Shown) -> None:
    """Full files come first, oldest first, also where a line was longer than a file; --since starts where it must."""
    rank = cluster.rank(0, Limits(bytes=2000, backups=50))
    for number in range(100):
        rank.record(number * 60, f"n={number}", text="x" * (5000 if number == 50 else 100))
    folder = cluster.folder / "logs/trainer/rank-0"
    assert len(list(folder.glob("info.log.*"))) > 9
    found = [re.findall(r"n=(\d+) text=(x+)$", line) for line in shown(cluster.run)[1:]]
    assert [(int(number), len(text)) for ((number, text),) in found] == [
        (number, 5000 if number == 50 else 100) for number in range(100)
    ]
    assert len(shown(cluster.run, "--since", "2026-01-31T11:00:00")) == 1 + 10


def test_since_skips_most_of_a_file(cluster: Cluster, shown: Shown) -> None:
    """In a file of many blocks exactly the records from that time on are shown."""
    rank = cluster.rank(0)
    lines = [wire.encode_record("info", f"n={n}", "lib", {"x": "y" * 300}, START + n)[:-1] for n in range(2000)]
    rank.files.append("info", wire.completed(wire.Run("info", lines), utf8(rank.origin.columns)) + b"\n")
    rank.files.flush()
    for first in (0, 1, 1234, 1999):
        since = datetime.fromtimestamp(START + first, timezone.utc).isoformat()
        shown_lines = shown(cluster.run, "--since", since)[1:]
        assert (len(shown_lines), f"n={first} " in shown_lines[0]) == (2000 - first, True)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """As on a login node: far fewer open files than ranks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_1024_ranks_are_merged(cluster: Cluster, shown: Shown, few_descriptors: None) -> None:
    """With sixteen more open files allowed, the records of all ranks come by time, each once."""
    for rank in range(1024):
        one = cluster.rank(rank)
        for step in range(3):
            one.record(step * 10 + (rank * 7919 % 1024) / 1000, "step", n=step)
        one.files.close()
    lines = shown(cluster.run)[1:]
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert len({(line.split()[2], line.split("n=")[1]) for line in lines}) == len(lines) == 3 * 1024


def test_memory_does_not_grow_with_the_files(cluster: Cluster) -> None:
    """16 MB of four ranks are merged in a fraction of that."""
    for rank in range(4):
        one = cluster.rank(rank)
        for number in range(1000):
            one.record(number, "long", x="y" * 4000)
    logs = Logs(folder=str(cluster.folder / "logs/trainer"), run_id="run1", module="trainer", selection=Selection())
    tracemalloc.start()
    count = sum(1 for _ in merged(logs))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 4000
    assert peak < 6e6


def test_a_reader_that_leaves_is_no_failure(cluster: Cluster) -> None:
    """`primus logs | head -1`: one line, no complaint, success."""
    one = cluster.rank(0)
    for number in range(3000):
        one.record(number, "x" * 100)
    argv = [sys.executable, "-m", "primus_core.cli.main", "logs", str(cluster.run)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(20)) == (b"", 0)


def test_secrets_of_the_reader_are_masked(cluster: Cluster, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that somebody else's run wrote may have what is a secret here."""
    monkeypatch.setenv("SOME_TOKEN", "hush-hush")
    cluster.rank(0).record(1, "says hush-hush")
    assert shown(cluster.run)[1].endswith("says ***")


@frozen(kw_only=True)
class Following:
    """`primus logs --follow` in a process of its own."""

    process: subprocess.Popen[str]
    lines: list[str]

    def waits_for(self, text: str, seconds: float = 60) -> float:
        """Until a line has the text; returns how long it took."""
        start = time.monotonic()
        while not any(text in line for line in tuple(self.lines)):
            assert time.monotonic() - start < seconds, (text, self.lines)
            time.sleep(0.01)
        return time.monotonic() - start


@pytest.fixture
def follow(cluster: Cluster) -> Iterator[Callable[..., Following]]:
    started: list[tuple[Any, threading.Thread]] = []

    def run(*words: str) -> Following:
        argv = [sys.executable, "-m", "primus_core.cli.main", "logs", str(cluster.run), "--follow", *words]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout or ())))
        reader.start()
        started.append((process, reader))
        return Following(process=process, lines=lines)

    yield run
    for process, reader in started:
        process.kill()
        process.wait()
        reader.join()
        for pipe in (process.stdout, process.stderr):
            pipe.close()


def test_a_run_is_followed_to_its_end(cluster: Cluster, follow: Callable[..., Following]) -> None:
    """New records, ranks and files that are put aside appear within a second, none twice, until the run has ended."""
    following = follow()
    one = cluster.rank(0, Limits(bytes=2000, backups=3))
    one.record(0, "first")
    following.waits_for("first")
    for number in range(60):  # faster than it is looked at: several files in between
        one.record(1 + number, f"many {number:02} {'x' * 60}")
        time.sleep(0.02)
    late = cluster.rank(1)
    late.record(70, "late rank")
    late.prints(71, *TRACE)
    assert following.waits_for("late rank") < 10
    one.record(80, "urgent", "error")
    assert following.waits_for("urgent") < 10
    one.record(90, "final words")
    cluster.end()
    assert following.process.wait(60) == 0
    said = [line.split("  ")[-1].strip() for line in following.lines if "many" in line]
    assert said == [f"many {number:02} {'x' * 60}" for number in range(60)]
    text = "".join(following.lines)
    assert text.index("urgent") < text.index("final words")
    assert all(f"    {line}\n" in text for line in TRACE[1:])
    assert text.count("first") == text.count("late rank") == text.count("final words") == 1


def test_following_ends_with_ctrl_c(cluster: Cluster, follow: Callable[..., Following]) -> None:
    """Quietly, with the exit code of an interrupt."""
    cluster.rank(0).record(0, "first")
    following = follow("--grep", "fir")
    following.waits_for("first")
    following.process.send_signal(signal.SIGINT)
    assert following.process.wait(60) == 130
    assert following.process.stderr is not None
    assert following.process.stderr.read() == ""


def test_ranks_are_named_in_ranges() -> None:
    """``3,7-9`` is four ranks."""
    assert list(filter(some_ranks("3,7-9"), range(20))) == [3, 7, 8, 9]
