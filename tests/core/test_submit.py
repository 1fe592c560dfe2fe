"""Starting, showing, ending: every process here is a real one."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from attrs import evolve

from primus_core import report
from primus_core.codec import to_json
from primus_core.errors import DependencyError, RunError
from primus_core.log.events import encode
from primus_core.outcome import RankReport
from primus_core.plan import Job, Process, RunPlan, Submission, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import Console, submit

ENV = {"PATH": os.defpath, "HF_TOKEN": "hf_very_secret"}
Script = Callable[..., Process]

HEAD = """
import json, os, signal, subprocess, sys, time
def event(**fields):
    sys.stdout.write("\\x1e" + json.dumps(fields) + "\\n"); sys.stdout.flush()
def report(rank=0, code=0, **more):
    os.makedirs(RANKS, exist_ok=True)
    with open(f"{RANKS}/rank-{rank}.json", "w") as file:
        json.dump(dict(run_id="r", rank=rank, host="h", phase="train", exit_code=code, **more), file)
"""


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    task = Task(kind="train", entry="x:y")
    return RunPlan(
        run_id="r",
        run_dir=str(tmp_path / "e" / "runs" / "r"),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=task,
        module="pre",
        job=Job(run_id="r", name="n", task=task, python=sys.executable, argv=()),
        launcher="l",
        secrets=("HF_TOKEN",),
    )


@pytest.fixture
def script(tmp_path: Path, plan: RunPlan) -> Script:
    """A process that runs some lines of Python, with `event` and `report` at hand."""
    count = iter(range(9))

    def made(body: str, **more: str) -> Process:
        file = tmp_path / f"script{next(count)}.py"
        file.write_text(f"{HEAD}\nRANKS = {str(RunDir(Path(plan.run_dir)).ranks)!r}\n{textwrap.dedent(body)}")
        return Process(argv=(sys.executable, "-S", str(file)), **more)  # type: ignore[arg-type]  # only stdin

    return made


def run(plan: RunPlan, *processes: Process, env: Mapping[str, str] = ENV) -> tuple[int, str]:
    stream = io.StringIO()
    code = submit(Submission(processes=processes), plan, env=env, console=Console(stream, live=False)).exit_code
    return code, stream.getvalue()


def host_log(plan: RunPlan) -> str:
    return (RunDir(Path(plan.run_dir)).submission / "host-0.log").read_text()


def test_events_reach_the_console_and_everything_else_the_log(plan: RunPlan, script: Script) -> None:
    """The console has the events' lines only; what torchrun or a library writes is in the submission's log."""
    body = """
    print("W0101 torchrun noise"); print("more noise", file=sys.stderr)
    event(kind="notice", topic="state", text="continuing from checkpoint 5")
    event(kind="record", t=0, level="warning", event="slow disk", source="x", values="s=3", rank=1)
    event(kind="phase", name="train")
    sys.stdout.write("unfinished"); event(kind="notice", topic="state", text="after it")
    sys.stdout.buffer.write(b"\\x1enot json\\n\\xff\\xfe bytes\\nno newline at the end")
    report()
    """
    code, shown = run(plan, script(body))
    assert (code, shown.splitlines()) == (
        0,
        ["state       continuing from checkpoint 5", "warning, rank 1: slow disk s=3", "state       after it"],
    )
    expected = ["W0101 torchrun noise", "more noise", "unfinished", "\x1enot json", "\\xff\\xfe bytes"]
    assert sorted(host_log(plan).split("\n")) == sorted([*expected, "no newline at the end", ""])


def test_the_ranks_inherit_the_environment_and_are_told_to_send_events(plan: RunPlan, script: Script) -> None:
    """A process gets the shell's variables, the launcher's on top, and standard input that ends."""
    body = """
    print(os.environ["A"], os.environ["B"], os.environ["PRIMUS_CONSOLE"], repr(sys.stdin.read()), "HOME" in os.environ)
    report()
    """
    process = evolve(script(body, stdin="typed"), env={"A": "launcher"})
    assert run(plan, process, env={"A": "shell", "B": "shell"})[0] == 0
    assert host_log(plan).split("\n")[0] == "launcher shell events 'typed' False"


def test_secrets_are_masked_in_the_log(plan: RunPlan, script: Script) -> None:
    """The value of a secret that a launcher prints is not written."""
    run(plan, script("print('token', os.environ['HF_TOKEN']); report()"))
    assert host_log(plan) == "token ***\n"


def test_a_flood_without_line_ends_is_kept_and_stops_nothing(plan: RunPlan, script: Script) -> None:
    """Twenty megabytes in one line are cut into lines; none is lost."""
    run(plan, script("sys.stdout.write('x' * 20_000_000); report()"))
    assert host_log(plan).replace("\n", "") == "x" * 20_000_000


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("report()", 0),
        ("report(code=1); sys.exit(1)", 1),
        ("report(code=2); sys.exit(1)", 2),
        ("report(code=3); sys.exit(1)", 3),
        ("report(code=7); sys.exit(1)", 3),
        ("report(code=137, signal='SIGKILL'); sys.exit(1)", 3),
        ("report(); sys.exit(1)", 3),
        ("report(); os.kill(os.getpid(), 9)", 3),
        ("pass", 3),
        ("sys.exit(1)", 3),
        ("import torch_that_is_not_here", 1),
        ("report(code=2)", 2),
    ],
)
def test_the_exit_status_says_what_kind_of_failure_it_was(plan: RunPlan, script: Script, body: str, code: int) -> None:
    """1, 2 and 3 pass through; a killed or silent rank is 3; a launcher whose library is missing is 1."""
    assert run(plan, script(body))[0] == code
    written = report.read(RunDir(Path(plan.run_dir)))
    assert written is not None
    assert written.exit_code == code


def test_a_report_of_an_earlier_start_is_not_taken_for_this_one(plan: RunPlan, script: Script) -> None:
    """When a run is started again and its ranks say nothing, yesterday's success does not count."""
    assert run(plan, script("report()"))[0] == 0
    assert run(plan, script("pass"))[0] == 3


def test_a_program_that_is_missing_is_a_dependency_error(plan: RunPlan) -> None:
    """The error names the program; nothing is left running."""
    with pytest.raises(DependencyError, match="cannot start /no/such/srun"):
        run(plan, Process(argv=("/no/such/srun",)))


def test_when_the_second_program_is_missing_the_first_is_ended(plan: RunPlan, script: Script) -> None:
    """A submission that starts by half is taken back."""
    with pytest.raises(DependencyError, match="srun"):
        run(plan, script("time.sleep(60)"), Process(argv=("/no/such/srun",)))


def test_the_failure_of_one_process_ends_the_others(plan: RunPlan, script: Script) -> None:
    """The processes of one submission belong together."""
    start = time.monotonic()
    code, _ = run(plan, script("report(code=2); sys.exit(2)"), script("time.sleep(60)"))
    assert code == 2
    assert time.monotonic() - start < 10


def test_what_the_processes_leave_running_is_ended(plan: RunPlan, script: Script) -> None:
    """A helper in a session of its own, which holds the pipe open, neither hangs the run nor survives it."""
    body = """
    helper = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
    print(helper.pid); report()
    """
    code, shown = run(plan, script(body))
    assert code == 0
    assert shown == "killed 1 process that had not ended\n"
    assert not alive(int(host_log(plan)))


def test_the_launchers_files_are_written_before_it_starts(plan: RunPlan, script: Script) -> None:
    """A process finds the submission's files beside its log."""
    folder = RunDir(Path(plan.run_dir)).submission
    process = script(f"print(open({str(folder / 'a/job.sh')!r}).read()); report()")
    code = submit(
        Submission(processes=(process,), files={"a/job.sh": "text"}),
        plan,
        env=ENV,
        console=Console(io.StringIO(), live=False),
    ).exit_code
    assert (code, host_log(plan)) == (0, "text\n")


@pytest.mark.parametrize("name", ["../plan.json", "/etc/motd"])
def test_a_launcher_writes_only_into_its_folder(plan: RunPlan, name: str) -> None:
    """A file outside submission/ is the launcher's fault, and is not written."""
    with pytest.raises(DependencyError, match="outside the run directory"):
        submit(Submission(processes=(), files={name: "x"}), plan, env=ENV)


def test_a_detached_submission_is_refused(plan: RunPlan) -> None:
    """What is left to a scheduler is not reported as if it had been waited for."""
    with pytest.raises(DependencyError, match="scheduler"):
        submit(Submission(processes=(), detached=True), plan, env=ENV)


def test_a_run_directory_that_cannot_be_written_is_told(plan: RunPlan, script: Script, tmp_path: Path) -> None:
    """A file where the folder should be is a failure of the run with a remedy."""
    (tmp_path / "e").write_text("")
    with pytest.raises(RunError, match="cannot write the run directory"):
        run(plan, script("pass"))


# --- signals: `submit` in a process of its own ---

DRIVER = """
import os, sys
from primus_core.codec import from_json
from primus_core.plan import RunPlan, Submission
from primus_core.submit import Console, submit
plan = from_json(RunPlan, open(sys.argv[1]).read())
submission = from_json(Submission, open(sys.argv[2]).read())
sys.exit(submit(submission, plan, env=dict(os.environ), console=Console.on(sys.stdout, os.environ)).exit_code)
"""


@pytest.fixture
def driver(tmp_path: Path, plan: RunPlan) -> Iterator[Callable[[Process], subprocess.Popen[str]]]:
    """Run a submission in another process; returns once the submitted process has printed its first notice."""
    started: list[subprocess.Popen[str]] = []

    def run_apart(process: Process) -> subprocess.Popen[str]:
        (tmp_path / "plan.json").write_text(to_json(plan))
        (tmp_path / "submission.json").write_text(to_json(Submission(processes=(process,))))
        argv = [sys.executable, "-c", DRIVER, str(tmp_path / "plan.json"), str(tmp_path / "submission.json")]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout
        assert child.stdout.readline() == "state       ready\n"
        return child

    yield run_apart
    for child in started:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


GRACEFUL = """
def end(number, frame):
    report(code=128 + number, signalled_first=True)
    print("got", signal.Signals(number).name, flush=True)
    sys.exit(1)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, end)
print(os.getpid(), flush=True)
event(kind="notice", topic="state", text="ready")
time.sleep(60)
"""
STUBBORN = """
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
helper = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
print(os.getpid(), helper.pid, flush=True)
event(kind="notice", topic="state", text="ready")
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("sent", "received", "code"),
    [(signal.SIGINT, "SIGINT", 130), (signal.SIGTERM, "SIGTERM", 143), (signal.SIGHUP, "SIGTERM", 129)],
)
def test_a_signal_reaches_the_launcher_once(
    plan: RunPlan,
    script: Script,
    driver: Callable[[Process], subprocess.Popen[str]],
    sent: signal.Signals,
    received: str,
    code: int,
) -> None:
    """Ctrl-C, TERM and a closed terminal end the launcher in good order; the status says which it was."""
    child = driver(script(GRACEFUL))
    child.send_signal(sent)
    shown, _ = child.communicate(timeout=60)
    assert child.returncode == code
    again = " again" if sent == signal.SIGINT else ""
    goes_on = "waiting for the ranks to end" if sent == signal.SIGINT else "the run finishes its iteration and saves"
    whom = "them" if sent == signal.SIGINT else "it"
    assert shown.splitlines()[0] == f"{sent.name}: {goes_on}; Ctrl-C{again} kills {whom}"
    assert host_log(plan).split("\n")[1:] == [f"got {received}", ""]
    assert not alive(int(host_log(plan).split()[0]))


MESSAGES = """
got = []
signal.signal(signal.SIGUSR2, lambda number, frame: got.append(print("SIGUSR2", flush=True)))
event(kind="notice", topic="state", text="ready")
for _ in range(1200):
    if len(got) == 2: break
    time.sleep(0.05)
report()
"""


def test_messages_reach_the_launcher_each_time_and_end_nothing(
    plan: RunPlan, script: Script, driver: Callable[[Process], subprocess.Popen[str]]
) -> None:
    """SIGUSR2 is passed on as often as it comes, without a word and without a deadline."""
    child = driver(script(MESSAGES))
    for count in (1, 2):  # signals that wait to be delivered are one
        child.send_signal(signal.SIGUSR2)
        assert eventually(lambda count=count: len(host_log(plan).split()) == count)
    assert child.communicate(timeout=60)[0] == ""
    assert child.returncode == 0
    assert host_log(plan).split() == ["SIGUSR2", "SIGUSR2"]


INTERRUPTED_START = """
got = []
signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
os.kill(os.getppid(), signal.SIGINT)
sys.stdin.read()
event(kind="notice", topic="state", text="ready")
for _ in range(600):
    if got: break
    time.sleep(0.1)
report()
"""


def test_ctrl_c_during_the_start_reaches_what_is_being_started(
    script: Script, driver: Callable[[Process], subprocess.Popen[str]]
) -> None:
    """A signal that arrives while a process is still being given its input is passed on as soon as it has it."""
    child = driver(script(INTERRUPTED_START, stdin="x" * 1_000_000))
    child.communicate(timeout=60)
    assert child.returncode == 0


def test_a_graceful_end_after_ctrl_c_is_a_success(
    script: Script, driver: Callable[[Process], subprocess.Popen[str]]
) -> None:
    """Ranks that save and end with 0 when they are interrupted did what was asked."""
    graceful = GRACEFUL.replace("code=128 + number, signalled_first=True", "").replace("sys.exit(1)", "sys.exit(0)")
    child = driver(script(graceful))
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 0


@pytest.mark.parametrize(("first", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_ctrl_c_kills_everything(
    plan: RunPlan,
    script: Script,
    driver: Callable[[Process], subprocess.Popen[str]],
    first: signal.Signals,
    code: int,
) -> None:
    """A launcher that ignores signals and its helper in another session are gone a moment after the second signal.

    A stop that is cut short so has not saved, and asks for nothing.
    """
    child = driver(script(STUBBORN))
    child.send_signal(first)
    assert child.stdout
    assert child.stdout.readline().startswith(first.name)
    child.send_signal(signal.SIGINT)
    shown, _ = child.communicate(timeout=60)
    assert child.returncode == code
    assert not (Path(plan.run_dir) / "requeue.json").exists()
    assert shown.splitlines()[-1] == "killed 2 processes that had not ended"
    assert not any(alive(int(pid)) for pid in host_log(plan).split())


def test_the_launcher_does_not_outlive_a_killed_host(
    plan: RunPlan, script: Script, driver: Callable[[Process], subprocess.Popen[str]]
) -> None:
    """When `primus run` itself is killed, the kernel tells the launcher to end."""
    child = driver(script(GRACEFUL))
    pid = int(host_log(plan).split()[0])
    child.kill()
    assert eventually(lambda: not alive(pid))
    reports = RunDir(Path(plan.run_dir)).ranks / "rank-0.json"
    assert json.loads(reports.read_text())["exit_code"] == 128 + signal.SIGTERM


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def eventually(true: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


# --- the console ---

ROW = {"iteration": 7, "train_iters": 100, "loss": 2.5, "tokens_per_second": 1000.0}


def metrics(iteration: int) -> dict[str, object]:
    return {"kind": "metrics", "row": {**ROW, "iteration": iteration}, "rank": 0}


def test_lines_are_thinned_where_there_is_no_terminal() -> None:
    """A hundred iterations are about twenty lines, without any cursor movement."""
    stream = io.StringIO()
    console = Console.on(stream, {"TERM": "xterm"})
    for iteration in range(1, 101):
        console.event(metrics(iteration))
    console.close()
    lines = stream.getvalue().splitlines()
    assert 15 <= len(lines) <= 25
    assert lines[-1].startswith("iteration 100/100  loss 2.5")
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()


@pytest.fixture
def terminal() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """A pseudo terminal of 40 columns: the reading end, and a stream on the other."""
    reading, writing = pty.openpty()
    with os.fdopen(writing, "w") as stream:
        columns(stream, 40)
        yield reading, stream
    os.close(reading)


def columns(stream: io.TextIOWrapper, count: int) -> None:
    fcntl.ioctl(stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 10, count, 0, 0))


def test_a_terminal_has_one_live_line(terminal: tuple[int, io.TextIOWrapper]) -> None:
    """Metrics replace each other in a line that fits the terminal; a warning stays above it; the last one remains."""
    reading, stream = terminal
    console = Console.on(stream, {"TERM": "xterm"})
    console.event(metrics(7))
    console.event({"kind": "record", "level": "warning", "event": "hot", "values": "", "rank": 3})
    console.event(metrics(8))
    console.close()
    console.line("done")
    seven, eight = (f"iteration {n}/100  loss 2.500  1,000 tokens/s" for n in (7, 8))
    erase = "\r\x1b[K"
    assert shown_on(reading) == (
        f"{erase}{seven[:38]}…{erase}{eight[:38]}…{erase}warning, rank 3: hot\n{eight[:38]}…{erase}{eight}\ndone\n"
    )


def shown_on(reading: int) -> str:
    """What is in the pseudo terminal now, with plain line ends."""
    os.set_blocking(reading, False)
    data = b""
    with contextlib.suppress(BlockingIOError):
        while True:
            data += os.read(reading, 4096)
    return data.decode().replace("\r\n", "\n")


def test_a_narrow_terminal_shows_loss_speed_and_time_left(terminal: tuple[int, io.TextIOWrapper]) -> None:
    """Learning rate and gradient norm give way where the row is too short for all; the line that remains has them."""
    reading, stream = terminal
    columns(stream, 72)
    console = Console.on(stream, {"TERM": "xterm"})
    row = {**ROW, "lr": 0.001, "grad_norm": 1.5, "step_seconds": 0.1}
    console.event({"kind": "metrics", "row": row})
    console.close()
    short = "iteration 7/100  loss 2.500  1,000 tokens/s  0.1 s/step  9 s left"
    full = "iteration 7/100  loss 2.500  lr 1.0e-03  grad norm 1.5  1,000 tokens/s  0.1 s/step  9 s left"
    assert shown_on(reading) == f"\r\x1b[K{short}\r\x1b[K{full}\n"


def test_the_time_left_does_not_jump() -> None:
    """After a hundred steps of a second, one of a minute changes the estimate by a few, not by sixty times."""
    stream = io.StringIO()
    console = Console(stream, live=True)
    for iteration in range(1, 101):
        console.event(
            {"kind": "metrics", "row": {**ROW, "iteration": iteration, "train_iters": 200, "step_seconds": 1}}
        )
    console.event({"kind": "metrics", "row": {**ROW, "iteration": 101, "train_iters": 200, "step_seconds": 61}})
    before, after = stream.getvalue().split("\r")[-2:]
    assert before.endswith("1 s/step  1 min 40 s left")
    assert after.endswith("61 s/step  11 min 33 s left")


def test_a_finished_preparation_leaves_the_live_line(terminal: tuple[int, io.TextIOWrapper]) -> None:
    """Progress is gone when it is complete, so that it does not stand below what comes next."""
    reading, stream = terminal
    console = Console.on(stream, {"TERM": "xterm"})
    for done in (5, 10):
        console.event({"kind": "progress", "what": "tokenizing", "done": done, "total": 10, "unit": "bytes"})
    console.line("next")
    assert shown_on(reading) == "\r\x1b[Ktokenizing  5/10 bytes  50 %\r\x1b[Knext\n"


def test_a_dumb_terminal_gets_plain_lines(terminal: tuple[int, io.TextIOWrapper]) -> None:
    """A terminal that cannot erase a line gets lines."""
    reading, stream = terminal
    console = Console.on(stream, {"TERM": "dumb"})
    console.event(metrics(1))
    assert shown_on(reading) == "iteration 1/100  loss 2.500  1,000 tokens/s\n"


def test_a_console_that_nobody_reads_stops_nothing() -> None:
    """`primus run | head` goes on training after head has left."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    console = Console.on(stream, {})
    console.line("x")
    console.line("y")
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_encoded_events_are_what_the_console_reads(plan: RunPlan, script: Script) -> None:
    """The bytes that ranks write are shown as their line."""
    wire = encode({"kind": "notice", "topic": "state", "text": "héllo"})
    code, shown = run(plan, script(f"sys.stdout.buffer.write({wire!r}); report()"))
    assert (code, shown) == (0, "state       héllo\n")


def test_the_merged_report_counts_every_rank(plan: RunPlan, script: Script) -> None:
    """report.json holds all ranks and the result they reached together."""
    two = evolve(plan, target=evolve(plan.target, ranks_per_node=2))
    body = "report(0, result={'loss': None, 'iteration': 9}); report(1, result={'loss': 1.5, 'iteration': 9})"
    assert run(two, script(body))[0] == 0
    written = report.read(RunDir(Path(plan.run_dir)))
    assert written is not None
    assert [type(rank) for rank in written.ranks] == [RankReport, RankReport]
    assert written.result == {"loss": 1.5, "iteration": 9}
