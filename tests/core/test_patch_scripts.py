"""Scripts that one bash sources before a run: every one here is a real one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from primus_core.errors import RunError
from primus_core.submit.patchscripts import Patched, run_patch_scripts

ENV = {"PATH": os.defpath, "OLD": "1", "PWD": "/somewhere"}


class Scripts:
    """Writes scripts into a folder and sources them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: list[Patched] = []

    def run(self, *texts: str, **env: str) -> dict[str, str]:
        paths = [self.folder / f"{number}.sh" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(textwrap.dedent(text))
        return run_patch_scripts([str(path) for path in paths], {**ENV, **env}, self.ended.append)


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def test_what_a_script_exports_stays(scripts: Scripts) -> None:
    """Exports, text of several lines, bytes that are no UTF-8, a longer PATH and what is unset reach the ranks."""
    env = scripts.run(
        """
        export A="two
        lines " QUOTES="'\\"\\$x" BYTES=$'\\xff' PATH=/opt/x:$PATH
        NOT_EXPORTED=1
        unset OLD
        cd /
        """
    )
    path = f"/opt/x:{os.defpath}"
    assert env == {
        "A": "two\nlines ", "QUOTES": "'\"$x", "BYTES": os.fsdecode(b"\xff"), "PATH": path, "PWD": "/somewhere"
    }  # fmt: skip
    assert scripts.ended[0].exported == ("A", "BYTES", "PATH", "QUOTES")
    assert scripts.ended[0].unset == ("OLD",)


def test_scripts_share_one_shell(scripts: Scripts) -> None:
    """What one script sets, defines or changes, the next one finds, though the first left with `exit`."""
    env = scripts.run(
        'X=kept\nf() { echo "f: $1"; }\ncd /usr\nexit 0',
        '[ $# = 0 ] || exit 9\nexport FOUND="$X in $(pwd)"; f called\nexit 2',
        "export LAST=$FOUND",
    )
    assert env["LAST"] == "kept in /usr"
    assert [one.skipped for one in scripts.ended] == [False, True, False]
    assert scripts.ended[1].lines == ("f: called",)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit 7", "exit code 7"),
        ("set -euo pipefail\nfalse | true\necho not reached", "exit code 1"),
        ("echo $NO_SUCH; set -u; echo $NO_SUCH", "exit code 1"),
        ("return 3", "exit code 3"),
        ("trap 'echo cleaned up' EXIT\nset -e\nfalse", "exit code 1"),
        ("kill -9 $BASHPID", "exit code 137"),
    ],
)
def test_a_failing_script_stops_the_run(scripts: Scripts, text: str, code: str) -> None:
    """The error names the script, its exit code and its last lines; no later script is started."""
    with pytest.raises(RunError) as caught:
        scripts.run("export A=1", f"echo last words\n{text}", f"touch {scripts.folder}/started")
    assert caught.value.what.startswith(f"the patch script {scripts.folder}/1.sh ended with {code}")
    assert "last words" in caught.value.why
    assert [Path(one.script).name for one in scripts.ended] == ["0.sh"]
    assert not (scripts.folder / "started").exists()


def test_a_script_that_is_none_is_not_skipped(scripts: Scripts) -> None:
    """A file that bash cannot read fails with bash's words, and nothing of it has been run."""
    with pytest.raises(RunError, match=r"0\.sh ended with exit code 1") as caught:
        scripts.run(f"touch {scripts.folder}/started\nif true; then")
    assert "syntax error" in caught.value.why
    assert not (scripts.folder / "started").exists()


@pytest.mark.parametrize("ending", ["", "exit 0", "set -e", "exit"])
def test_a_script_may_clean_up_after_itself(scripts: Scripts, ending: str) -> None:
    """A trap on EXIT of its own runs, and hides neither its exports nor the next script."""
    env = scripts.run(f"trap 'touch {scripts.folder}/cleaned' EXIT\nexport A=1\n{ending}", "export B=$A")
    assert (env["A"], env["B"]) == ("1", "1")
    assert (scripts.folder / "cleaned").exists()


def test_exit_in_a_subshell_is_its_own(scripts: Scripts) -> None:
    """`( exit 3 )` and a pipe's end leave the script running."""
    env = scripts.run("( exit 3 ); echo x | exit 4; y=$(exit 5)\nexport CODE=$?")
    assert env["CODE"] == "5"


def test_a_script_that_replaces_the_shell_is_told(scripts: Scripts) -> None:
    """After `exec` there are no exports to read: the run does not start without them."""
    with pytest.raises(RunError, match="ended the shell, and its exports are lost"):
        scripts.run("export A=1\nexec true")


def test_secrets_are_masked(scripts: Scripts) -> None:
    """Also a secret that the script itself exports does not show in what it printed before."""
    scripts.run('echo "got $HF_TOKEN"\nexport API_KEY=very-secret; echo $API_KEY', HF_TOKEN="hush-hush")
    assert scripts.ended[0].lines == ("got ***", "***")
    with pytest.raises(RunError) as caught:
        scripts.run("export API_KEY=very-secret; echo $API_KEY; exit 1")
    assert "very-secret" not in caught.value.why
    assert "***" in caught.value.why


def test_broken_tools_do_not_matter(scripts: Scripts) -> None:
    """Neither an empty PATH nor a wrong PYTHONHOME of a script hinders the reading of its exports."""
    env = scripts.run("export PATH= PYTHONHOME=/nowhere PYTHONPATH=/nowhere A=1")
    assert (env["A"], env["PATH"]) == ("1", "")


def test_what_is_left_in_the_background_ends(scripts: Scripts) -> None:
    """A process that a script leaves behind holds up nothing, and is gone when the scripts are."""
    started = time.monotonic()
    env = scripts.run("sleep 100 &\nexport PID=$!\nprintf 'no newline'")
    assert time.monotonic() - started < 20
    assert scripts.ended[0].lines == ("no newline",)
    _wait_for_the_end_of(env["PID"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_scripts_too(tmp_path: Path, number: signal.Signals) -> None:
    """Somebody who stops the command stops a script that takes long."""
    script = tmp_path / "long.sh"
    script.write_text(f"echo $BASHPID > {tmp_path}/pid.tmp; mv {tmp_path}/pid.tmp {tmp_path}/pid; sleep 100; sleep 100")
    program = (
        "import os, sys\nfrom primus_core.submit.patchscripts import run_patch_scripts\n"
        "run_patch_scripts(sys.argv[1:], dict(os.environ), print)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(script)], stderr=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists():
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(timeout=60) in (128 + number, 1, -number)
    _wait_for_the_end_of((tmp_path / "pid").read_text().strip())


def _wait_for_the_end_of(pid: str) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)
