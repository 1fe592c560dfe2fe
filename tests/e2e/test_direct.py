"""`primus direct`: programs of one's own, their environment, and where their output goes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primus_core.cli.copying import LogFile, node_file
from primus_core.cli.main import main
from tests.e2e.support import EXAMPLE, QUICK, Primus, environment
from tests.golden import check

SECRET = "hush-hush-hush"
NASTY = [
    "two words",
    "it's",
    'say "x"',
    "$HOME",
    "a;b|c&d",
    "*",
    "back\\slash",
    "new\nline",
    "größe",
    "",
    "-x",
    "--lr=1",
    "--",
]

PASTED = ["x y", "", "new\nline 'q' \\ $x", "größe"]

SHOW = """\
import json, logging, os, sys
seen = {"argv": sys.argv[1:], "name": __name__, "env": dict(os.environ), "path": sys.path}
json.dump(seen, open("shown.json", "w"))
print("hello from", os.environ["RANK"])
logging.warning("a warning")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program that writes down what it was given."""
    path = tmp_path / "show.py"
    path.write_text(SHOW)
    return path


Shown = Callable[[], dict[str, Any]]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return lambda: dict(json.loads((tmp_path / "shown.json").read_text()))


def test_a_program_gets_its_arguments_byte_for_byte(
    script: Path, tmp_path: Path, shown: Shown, workspace: Path
) -> None:
    """No shell and no parser of ours touches what stands after the dashes; its output is on the console."""
    words = [*f"{sys.executable} -m primus_core.cli.main direct --single --script show.py --".split(), *NASTY, b"\xff"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(workspace), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert shown()["argv"] == [*NASTY, "\udcff"]
    assert shown()["name"] == "__main__"
    assert shown()["path"][0] == str(script.parent)
    assert "warning, rank 0: a warning\n" in done.stdout
    assert "\nhello from 0\n" in done.stdout
    (report,) = workspace.glob("scripts/*/show/runs/2*/ranks/rank-0.json")
    assert json.loads(report.read_text())["phase"] == "done"
    assert "hello from 0" in (workspace / "scripts/me/show/logs/script/rank-0/info.log").read_text()


def test_the_order_in_which_variables_count(primus: Primus, script: Path, shown: Shown, tmp_path: Path) -> None:
    """The shell < what scripts export < env files in their order < --env KEY=VALUE; what a script unsets is gone."""
    names = ["SHELL_", "SCRIPT", "FILE", "SECOND", "OPTION"]
    (tmp_path / "set.sh").write_text(
        "unset GONE\nexport LINES_='two\nlines' PATH=/added:$PATH\n"
        + "\n".join(f"export {name}=script" for name in names[1:])
    )
    (tmp_path / "1.env").write_text("".join(f"{name}=file\n" for name in names[2:]))
    (tmp_path / "2.env").write_text("SECOND='2 $x'\nOPTION=2\n")
    shell = dict.fromkeys([*names, "GONE"], "shell")
    words = ["--patch", "set.sh", "--env", "OPTION=option", "--env_file", "1.env", "--env", "./2.env"]
    done = primus("direct", "--single", *words, "--script", script, **shell)
    assert done.returncode == 0, done.stdout + done.stderr
    env = shown()["env"]
    assert [env[name] for name in names] == ["shell", "script", "file", "2 $x", "option"]
    assert (env["LINES_"], env["PATH"].split(":")[0]) == ("two\nlines", "/added")
    assert "GONE" not in env
    assert "set.sh done, exports FILE LINES_ OPTION PATH SCRIPT SECOND, unsets GONE" in done.stdout


@pytest.mark.slow
def test_secrets_of_scripts_and_files_stay_secret(
    primus: Primus, script: Path, workspace: Path, tmp_path: Path
) -> None:
    """They reach the program, and no file and no output of the run."""
    (tmp_path / "set.sh").write_text(f"export A_TOKEN={SECRET}-1\necho $A_TOKEN\n")
    (tmp_path / "x.env").write_text(f"B_KEY={SECRET}-2\n")
    script.write_text("import os\nprint(os.environ['A_TOKEN'], os.environ['B_KEY'])\n")
    words = ["direct", "--single", "--patch", "set.sh", "--env", "./x.env", "--script", script, "--log_file", "run.log"]
    done = primus(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "*** ***" in done.stdout
    files = [path for path in (*workspace.rglob("*"), tmp_path / "run.log") if path.is_file()]
    assert SECRET not in done.stdout + done.stderr
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    refused = primus("direct", "--single", "--script", script, "--", f"--token={SECRET}", A_TOKEN=SECRET)
    assert refused.returncode == 2
    assert SECRET not in refused.stderr


def test_a_failing_script_stops_the_run(primus: Primus, script: Path, workspace: Path, tmp_path: Path) -> None:
    """Nothing of the run is started, and the file with the copy of the console has the error too."""
    (tmp_path / "bad.sh").write_text("echo about to fail >&2\nexit 7\n")
    done = primus("direct", "--single", "--patch", "bad.sh", "--script", script, "--log_file", "logs/run.log")
    assert done.returncode == 3
    check(done.stderr, "direct-patch-script-failed")
    assert f"error: the patch script {tmp_path}/bad.sh ended with exit code 7" in done.stderr
    assert "about to fail" in done.stderr
    assert not workspace.exists()
    assert done.stderr in (tmp_path / "logs/run.log").read_text()


def test_where_the_console_goes(primus: Primus, script: Path, tmp_path: Path) -> None:
    """`--log_file` gets what the console shows; `--silent` leaves the console to what went wrong."""
    loud = primus("direct", "--single", "--script", script, "--log_file", "run.log")
    assert (tmp_path / "run.log").read_text() == loud.stdout
    quiet = primus("direct", "--single", "--script", script, "--silent", "--log-file", "quiet.log")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert "hello from 0" in (tmp_path / "quiet.log").read_text()
    script.write_text("raise ValueError('broken')\n")
    failed = primus("direct", "--single", "--script", script, "--silent")
    assert (failed.returncode, failed.stdout) == (3, "")
    assert "ValueError: broken" in failed.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("body", "code"), [("import sys; sys.exit(0)", 0), ("import sys; sys.exit(7)", 3)])
def test_a_program_that_leaves(body: str, code: int, primus: Primus, script: Path) -> None:
    """Leaving with 0 is success; another status is a failure that the screen names."""
    script.write_text(body)
    done = primus("direct", "--single", "--script", script)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("exit status 7" in done.stdout) == (code == 3)


@pytest.mark.slow
def test_a_dry_run_shows_what_a_run_would_do(
    primus: Primus, script: Path, tmp_path: Path, workspace: Path, shown: Shown
) -> None:
    """Scripts are named and not run, nothing is written, and the two commands, pasted, run the program."""
    (tmp_path / "set.sh").write_text(f"touch {tmp_path}/touched\n")
    words = ["direct", "--single", "--patch", "set.sh", "--env", "A=b c", "--script", script, "--dry-run", "--"]
    dry = primus(*words, *PASTED)
    assert dry.returncode == 0, dry.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set.sh", "show.py"]
    assert "source      set.sh, before the commands" in dry.stdout
    pasted = "\n".join(dry.stdout.strip().splitlines()[-2:])
    assert pasted.startswith("primus direct ")
    done = subprocess.run(
        ["bash", "-c", pasted.replace("primus", f"{sys.executable} -m primus_core.cli.main", 1)],
        cwd=tmp_path,
        env=environment(workspace),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert shown()["argv"] == PASTED
    assert shown()["env"]["A"] == "b c"


def test_each_node_has_a_file_of_its_own() -> None:
    """Nodes that share a file system do not write into one file; a single node has the name that was given."""
    assert node_file("logs/run.log", {"NNODES": "4", "NODE_RANK": "3"}) == "logs/run.node-3.log"
    assert node_file("run", {"NNODES": "2"}) == "run.node-0"
    assert node_file("run.log", {"NNODES": "1", "NODE_RANK": "0"}) == "run.log"


def test_a_copy_that_cannot_be_written_any_more(capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk costs the copy, not the run, and is told once."""
    copy = LogFile("/dev/full")
    assert [copy.write("one\n"), copy.write("two\n")] == [4, 4]
    copy.close()
    assert capsys.readouterr().err == "warning: /dev/full cannot be written any more: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["direct", "--help"], ["--script PATH", "--env_file FILE", "--patch SCRIPT", "--log_file PATH", "--no-numa"]),
        (["direct", "--", "--help"], ["train ", "run ", "plan "]),
        (["direct", "--", "train", "--help"], ["{pretrain}", "--config FILE"]),
        (["direct", "--", "train", "pretrain", "--help"], ["--config FILE", "--patch SCRIPT", "--launcher-config"]),
        (["direct", "--", "preflight", "--help"], ["--host", "--perf-test", "primus preflight report"]),
        (["--debug", "direct", "--debug", "--", "run", "--help"], ["primus run", "--silent"]),
    ],
)
def test_help_at_every_level(words: list[str], told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each level explains itself and exits with 0."""
    try:
        code = main(words)
    except SystemExit as leaving:  # argparse
        code = int(leaving.code or 0)
    out = capsys.readouterr().out
    assert code == 0
    assert [text for text in told if text not in out] == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["direct"], 2, "no command after `--`"),
        (["direct", "--", "trian"], 2, "did you mean train?"),
        (["direct", "train", "--", "x"], 2, "'train' stands before `--`"),
        (["direct", "--script", EXAMPLE, "--lr", "3"], 2, "write the arguments of the program after `--`"),
        (["direct", "--script", "absent.py"], 2, "--script absent.py: no such file"),
        (["direct", "--env", "absent.env", "--script", EXAMPLE], 2, "the env file cannot be read"),
        (["direct", "--env", "NO_SUCH", "--script", EXAMPLE], 2, "--env NO_SUCH: not set in this shell"),
        (["direct", "--patch", "absent.sh", "--script", EXAMPLE], 2, "/absent.sh: no such file"),
        (["direct", "--config", "absent.yaml", "--script", EXAMPLE], 2, "absent.yaml"),
        (["--config", "absent.yaml", "direct", "--script", EXAMPLE], 2, "absent.yaml"),
        (["direct", "--output", "p.json", "--", "run", "x"], 2, "--output without --script"),
        (["direct", "--script", EXAMPLE, "--log_file", "/proc/none/run.log"], 2, "/run.log: cannot be written"),
        (["direct", "--single", "--nproc", "2", "--script", EXAMPLE], 2, "starts one rank"),
    ],
)
def test_mistakes(
    words: list[str | Path],
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each is told in one screen, with the exit code of its class; nothing is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIMUS_WORKSPACE", str(tmp_path / "workspace"))
    assert main([str(word) for word in words]) == code
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_error_masks_the_secrets_of_files_and_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A secret that came by an env file or a script, and got into a parameter by mistake, is not in the message."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.env").write_text(f"A_TOKEN={SECRET}\n")
    (tmp_path / "set.sh").write_text(f"export B_KEY={SECRET}-2\n")
    words = ["run", str(EXAMPLE), "--env_file", "x.env", "lr=${A_TOKEN}"]
    assert main([*words, "--patch", "set.sh", "train_iters=${B_KEY}"]) == 2
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err
    assert "`lr`" in told.err
    assert "***" in told.err


def test_options_in_both_spellings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` and `_` are one, before the dashes and behind them; `train --config` names the experiment."""
    file = tmp_path / "launcher.yaml"
    file.write_text("direct: {numa: auto}\n")
    env = tmp_path / "x.env"
    env.write_text("A=1\n")
    plans = []
    for words in (
        [
            "direct",
            "--config",
            file,
            "--env_file",
            env,
            "--dry_run",
            "--run_id",
            "r",
            "--",
            "train",
            "pretrain",
            "--config",
            EXAMPLE,
        ],
        [
            "direct",
            "--",
            "train",
            "pretrain",
            "--config",
            EXAMPLE,
            "--launcher_config",
            file,
            "--env-file",
            env,
            "--dry-run",
            "--run-id=r",
        ],
        ["--config", file, "--dry_run", "direct", "--env", env, "--", "run", EXAMPLE, "--run_id", "r"],
    ):
        assert main([str(word) for word in words]) == 0
        plans.append(capsys.readouterr().out)
    assert len(set(plans)) == 1
    assert "PRIMUS_NUMA=auto:cpu" in plans[0]
    assert " A=1 " in plans[0]


@pytest.mark.slow
def test_every_option_at_once(primus: Primus, tmp_path: Path, workspace: Path) -> None:
    """Two ranks train with scripts, env files, a launcher's file, a copy of the console and NUMA binding."""
    (tmp_path / "set.sh").write_text("export FROM_SCRIPT=1 NUMBER=1\n")
    (tmp_path / "x.env").write_text("NUMBER='2'\n")
    (tmp_path / "launcher.yaml").write_text("direct: {gpus_per_node: 4, numa: on}\n")
    words = ["direct", "--config", "launcher.yaml", "--patch", "set.sh", "--env", "./x.env", "--log_file", "run.log"]
    command = ["train", "pretrain", "--config", EXAMPLE, *QUICK, "train_iters=2"]
    done = primus(*words, "--debug", "--nproc", "2", "--", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run.log").read_text() == done.stdout + done.stderr
    (run,) = workspace.glob("examples/me/llama-tiny/runs/2*")
    job = json.loads((run / "plan.json").read_text())["job"]
    assert (job["env"]["NUMBER"], job["env"]["PRIMUS_LOG_LEVEL"]) == ("2", "DEBUG")
    logs = [
        (workspace / f"examples/me/llama-tiny/logs/pre_trainer/rank-{rank}/info.log").read_text() for rank in (0, 1)
    ]
    assert all("numa: rank" in log or "not bound" in log for log in logs)


@pytest.mark.slow
def test_a_plan_on_standard_output_stays_whole(primus: Primus, tmp_path: Path) -> None:
    """What a script prints goes to standard error there, and what it exports counts for the experiment's variables."""
    (tmp_path / "set.sh").write_text("echo noise\nexport PRIMUS_EXP_NAME=named\n")
    done = primus("plan", EXAMPLE, "--patch", "set.sh", "--env", "PRIMUS_USER=you")
    assert done.returncode == 0, done.stderr
    assert "/examples/you/named/runs/" in json.loads(done.stdout)["run_dir"]
    assert "noise\npatch       " in done.stderr


@pytest.mark.slow
def test_a_terminal_and_its_copy(primus: Primus, tmp_path: Path, workspace: Path) -> None:
    """On a terminal one line shows the progress; the file has plain lines of it, and no sequence that erases one."""
    words = ["direct", "--single", "--log_file", "run.log", "--", "run", str(EXAMPLE), *QUICK]
    command = shlex.join([sys.executable, "-m", "primus_core.cli.main", *words])
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        cwd=tmp_path,
        env=environment(workspace, TERM="xterm"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    copy = (tmp_path / "run.log").read_text()
    assert "\x1b[K" in done.stdout
    assert "\x1b" not in copy
    assert [f"iteration {number}/4" in copy for number in (1, 4)] == [True, True]
    assert "checkpoint" in copy or "done " in copy


@pytest.mark.cluster
@pytest.mark.skipif(shutil.which("numactl") is None, reason="numactl is not installed")
def test_ranks_run_where_numactl_binds_them(primus: Primus, script: Path, workspace: Path) -> None:
    """With the real numactl each rank of a CPU host has cores of its own, and so has what it starts."""
    script.write_text(
        "import os, subprocess, sys\n"
        "own = sorted(os.sched_getaffinity(0))\n"
        "below = subprocess.check_output([sys.executable, '-c', 'import os; print(sorted(os.sched_getaffinity(0)))'])\n"
        "assert str(own) == below.decode().strip()\n"
        "print('cpus', *own)\n"
    )
    done = primus("direct", "--nproc", "2", "--numa", "--script", script)
    assert done.returncode == 0, done.stdout
    logs = [(workspace / f"scripts/me/show/logs/script/rank-{rank}/info.log").read_text() for rank in (0, 1)]
    mine, other = (set(re.findall(r"stdout cpus (.*)", log)[0].split()) for log in logs)
    assert mine
    assert not mine & other
    assert len(mine) == len(other) == len(os.sched_getaffinity(0)) // 2
    assert all(f"numa: rank {rank} is bound to CPUs " in log for rank, log in enumerate(logs))


@pytest.mark.slow
def test_two_ranks_of_a_program(primus: Primus, script: Path, workspace: Path) -> None:
    """torchrun's ranks find each other; the one that fails is named, with its last lines, as in a training run."""
    script.write_text(
        "import os, torch.distributed as dist\ndist.init_process_group('gloo')\nimport torch\n"
        "x = torch.ones(1); dist.all_reduce(x); print('sum', int(x))\n"
        "if dist.get_rank() == 1:\n    print('about to fail')\n    raise ValueError('broken on purpose')\n"
        "dist.barrier()\n"
    )
    done = primus("direct", "--nproc", "2", "--script", script)
    assert done.returncode == 3
    assert "sum 2" in done.stdout
    check(done.stdout[done.stdout.index("error: rank 1 failed") :], "direct-program-failed")
