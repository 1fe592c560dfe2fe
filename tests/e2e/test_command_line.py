"""What holds for every command: exit codes, secrets, closed pipes, names of runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.cli.main import COMMANDS
from tests.e2e.support import EXAMPLE, QUICK, Primus, environment

SECRET = "hidden-from-everybody"


@pytest.mark.parametrize("name", ["../../evil", "latest", "", "a/b", ".", "-x", "a b"])
def test_names_of_runs_stay_in_the_runs_folder(name: str, primus: Primus, workspace: Path) -> None:
    """A run id that is a path, or the name of the link to the newest run, is refused."""
    done = primus("run", EXAMPLE, *QUICK, f"--run-id={name}")
    assert done.returncode == 2
    assert "--run-id" in done.stderr
    assert not workspace.exists()


def test_a_run_id_is_used_once(primus: Primus, workspace: Path) -> None:
    """A second run under the same id would mix its files with the first one's: it is refused."""
    words = ("run", EXAMPLE, *QUICK, "train_iters=1", "--nproc", "1", "--run-id", "mine", "mock_data=true")
    assert primus(*words, "train_data_path=null").returncode == 0
    again = primus(*words, "train_data_path=null")
    assert again.returncode == 2
    assert "mine" in again.stderr
    planned = primus("plan", *words[1:], "train_data_path=null", "--output", workspace / "plan.json")
    assert planned.returncode == 2


@pytest.mark.parametrize("debug", [("--debug", "run"), ("run", "--debug")])
def test_debug_adds_a_traceback_and_changes_nothing_else(debug: tuple[str, ...], primus: Primus) -> None:
    """With --debug the exit code, the reason and the remedy are the same as without."""
    done = primus(*debug, "absent.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert "error: the file does not exist" in done.stderr
    assert "try: " in done.stderr


@pytest.mark.parametrize("words", [("--bogus", "plugins"), ("--dry-run",), ()])
def test_global_options_are_known(words: tuple[str, ...], primus: Primus) -> None:
    """An unknown option before the command, or no command at all, is a wrong argument."""
    assert primus(*words).returncode == 2


def test_help_and_version(primus: Primus) -> None:
    """Help lists the commands, each apart from what it does, and the exit codes; the version is one line."""
    done = primus("--help")
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert "exit codes" in done.stdout
    assert primus("--version").stdout == "primus 0.1.0\n"


def test_a_closed_pipe_does_not_hide_a_failure(workspace: Path, tmp_path: Path) -> None:
    """A run whose output nobody reads still ends with the exit code of what it did."""
    checkpoints = workspace / "examples/me/llama-tiny/checkpoints"
    checkpoints.parent.mkdir(parents=True)
    checkpoints.touch()  # a file where the folder should be: the first save fails
    words = [sys.executable, "-m", "primus_core.cli.main", "run", str(EXAMPLE), *QUICK, "--nproc", "1"]
    with subprocess.Popen(
        [*words, "save_interval=1"],
        cwd=tmp_path,
        env=environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(120) == 3


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("plugins > /dev/full", 3, "error: the output cannot be written\n  why: No space left on device\n"),
        ("plugins >&-", 0, ""),
        ("run absent.yaml 2> /dev/full", 2, ""),
        ("run absent.yaml 2>&-", 2, ""),
    ],
)
def test_output_that_cannot_be_written(words: str, code: int, told: str, workspace: Path, tmp_path: Path) -> None:
    """A full disk is told in one screen; a closed stream is the caller's wish; the exit code is that of the command."""
    line = f"{sys.executable} -m primus_core.cli.main {words}"
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, env=environment(workspace), capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stderr.startswith(told)
    assert "internal" not in done.stderr


def test_secrets_are_not_printed_nor_written(primus: Primus, workspace: Path) -> None:
    """A secret of the command line reaches the ranks by inheritance; no output and no file has its value."""
    words = (
        "run",
        EXAMPLE,
        *QUICK,
        "train_iters=1",
        "--nproc",
        "1",
        f"env.A_TOKEN={SECRET}",
        "--env",
        f"B_KEY={SECRET}",
    )
    dry = primus(*words, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert SECRET not in dry.stdout + dry.stderr
    assert "A_TOKEN" in dry.stdout
    done = primus(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("train_iters: 100", "train_iters: ${A_TOKEN}"),
        ("direct:", "env:\n  URL: https://x:${A_TOKEN}@host\ndirect:"),
    ],
)
def test_a_secret_in_a_parameter_is_refused_and_not_shown(
    old: str, new: str, primus: Primus, tmp_path: Path, workspace: Path
) -> None:
    """A parameter or variable that would carry a secret into plan.json is refused without its value being shown."""
    text = EXAMPLE.read_text()
    assert old in text
    (tmp_path / "exp.yaml").write_text(text.replace(old, new, 1))
    done = primus("run", "exp.yaml", A_TOKEN=SECRET)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert not workspace.exists()


def test_options_of_a_mode_come_before_the_inner_words(primus: Primus, workspace: Path) -> None:
    """`direct --nproc N -- run EXP key=value` gives its options to the command behind the dashes."""
    done = primus("direct", "--nproc", "1", "--dry-run", "--", "run", EXAMPLE, "train_iters=2")
    assert done.returncode == 0, done.stderr
    assert "1 rank " in done.stdout
    assert not workspace.exists()
