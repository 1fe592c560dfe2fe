"""One run at a time in an experiment, held and left behind by real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.codec import from_json, to_json
from primus_core.errors import RunError
from primus_core.lock import ExperimentLock, Holder
from primus_core.rundir import RunDir

HOLD = """
import sys
from pathlib import Path
from primus_core.errors import RunError
from primus_core.lock import ExperimentLock
from primus_core.rundir import RunDir
try:
    with ExperimentLock(RunDir(Path(sys.argv[1]))):
        print("held", flush=True)
        sys.stdin.read()
except RunError as error:
    sys.exit(f"{error}: {error.why}")
"""


def rundir(folder: Path, run_id: str) -> RunDir:
    return RunDir(folder / "exp/runs" / run_id)


def hold(run: RunDir) -> subprocess.Popen[bytes]:
    """Another process that holds the experiment until its standard input ends."""
    argv = [sys.executable, "-c", HOLD, str(run.path)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"held\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.communicate()


def left_by(folder: Path, *, age: float = 0, **values: str | int) -> Holder:
    """A lock as a process leaves it that could not remove it, not renewed for so many seconds."""
    path = rundir(folder, "x").experiment / "lock.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = evolve(Holder.this_process(rundir(folder, "earlier")), **values)  # type: ignore[arg-type]  # of any field
    path.write_text(to_json(holder))
    os.utime(path, (time.time() - age,) * 2)
    return holder


def test_a_second_run_is_refused_naming_the_first(tmp_path: Path) -> None:
    """While a process holds the experiment: its run, number, host and since when; free again once it has ended."""
    first = hold(rundir(tmp_path, "first"))
    with pytest.raises(RunError) as caught, ExperimentLock(rundir(tmp_path, "second")):
        pass
    holder = from_json(Holder, (tmp_path / "exp/lock.json").read_text())
    assert (holder.run_id, holder.pid) == ("first", first.pid)
    assert caught.value.where == str(tmp_path / "exp")
    for fragment in ("run first", f"process {first.pid} on {os.uname().nodename}", "UTC"):
        assert fragment in caught.value.why
    assert f"kill {first.pid}" in caught.value.remedy
    end(first)
    with ExperimentLock(rundir(tmp_path, "second")) as lock:
        assert lock.left_behind is None
    assert list((tmp_path / "exp").iterdir()) == []


def test_the_lock_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    """SIGKILL leaves the file; the next run sees that its holder is gone, and says whose it was."""
    first = hold(rundir(tmp_path, "first"))
    first.send_signal(signal.SIGKILL)
    end(first)
    with ExperimentLock(rundir(tmp_path, "second")) as lock:
        assert lock.left_behind
        assert lock.left_behind.run_id == "first"
    assert list((tmp_path / "exp").iterdir()) == []


def test_a_number_that_another_process_got_is_not_its_holder(tmp_path: Path) -> None:
    """A process with the dead holder's number, but born at another time, holds nothing."""
    left_by(tmp_path, born=1)
    with ExperimentLock(rundir(tmp_path, "second")) as lock:
        assert lock.left_behind


def test_ranks_that_outlive_their_run_keep_the_experiment(tmp_path: Path) -> None:
    """The holder is dead but a process of its run still has the plan in its command line: refused until it is gone."""
    left = left_by(tmp_path, pid=2**22 + 1)
    rank = subprocess.Popen(
        [sys.executable, "-c", "input()", "primus_core.rank", f"{left.run_dir}/plan.json"], stdin=subprocess.PIPE
    )
    with pytest.raises(RunError) as caught, ExperimentLock(rundir(tmp_path, "second")):
        pass
    assert str(rank.pid) in caught.value.why
    end(rank)
    with ExperimentLock(rundir(tmp_path, "second")):
        pass


def test_a_lock_of_another_host_ends_when_it_is_not_renewed(tmp_path: Path) -> None:
    """Nothing is known of its process: a minute without a renewal frees the experiment, less does not."""
    left_by(tmp_path, age=50, realm="another host", host="node-7")
    with pytest.raises(RunError) as caught, ExperimentLock(rundir(tmp_path, "second")):
        pass
    assert "on node-7" in caught.value.why
    assert "its lock ends in" in caught.value.remedy
    left_by(tmp_path, age=61, realm="another host", host="node-7")
    with ExperimentLock(rundir(tmp_path, "second")) as lock:
        assert lock.left_behind


def test_a_holder_renews_its_lock(tmp_path: Path) -> None:
    """The file's time moves on while the experiment is held."""
    path = tmp_path / "exp/lock.json"
    with ExperimentLock(rundir(tmp_path, "first"), renew=0.05):
        before = path.stat().st_mtime_ns
        deadline = time.monotonic() + 60
        while path.stat().st_mtime_ns == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_file_that_names_nobody_is_one_being_written_for_a_second(tmp_path: Path) -> None:
    """Cut short by a crash it does not lock for ever; seen while it is written it is respected."""
    path = tmp_path / "exp/lock.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(RunError, match="being started"), ExperimentLock(rundir(tmp_path, "second")):
        pass
    os.utime(path, (time.time() - 2,) * 2)
    with ExperimentLock(rundir(tmp_path, "second")):
        pass


@pytest.mark.parametrize("round_", range(8))
def test_of_many_that_find_a_lock_left_behind_one_gets_it(tmp_path: Path, round_: int) -> None:
    """However they interleave: the others are refused, and whoever holds it is never robbed of it."""
    left_by(tmp_path, born=1)
    held: list[str] = []
    refused: list[str] = []
    start, ended = threading.Barrier(4), threading.Event()

    def contend(run_id: str) -> None:
        start.wait()
        try:
            with ExperimentLock(rundir(tmp_path, run_id)):
                held.append(run_id)
                ended.wait()
        except RunError:
            refused.append(run_id)

    threads = [threading.Thread(target=contend, args=(f"run-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while len(held) + len(refused) < 4 and time.monotonic() < deadline:
        time.sleep(0.005)
    ended.set()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A workspace below a file: the error names it and what to do."""
    (tmp_path / "exp").touch()
    with pytest.raises(RunError, match="cannot write the run directory"), ExperimentLock(rundir(tmp_path, "first")):
        pass
