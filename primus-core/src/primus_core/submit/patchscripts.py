"""Shell scripts that change the environment before a run: sourced one after the other by one bash."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from attrs import frozen

from primus_core.errors import RunError
from primus_core.log.redaction import Redactor
from primus_core.plan import Process
from primus_core.planning.secrets import secret_names
from primus_core.submit.lines import Lines
from primus_core.submit.processes import signal_group, start

SKIPPED = 2
"""Exit code of a script that found nothing to do."""
_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Variables that bash sets for itself."""
_SHOWN = 12
_TICK_SECONDS = 0.1
_LINGER_SECONDS = 0.3
"""How long what bash wrote last may take when bash has ended, and something it started holds the pipe open."""
_MARK = b"\x1e"

# Each script is sourced in a fork of the shell that the script before left, at the moment when it ended: `exit` ends
# its own script alone, and everything that is set, defined, exported or changed stays. After each one an interpreter
# of ours, which no PATH and no PYTHON* variable of a script misleads, tells the environment on a descriptor of its own.
_DRIVER = r"""
exec 2>&1 250>&1
__primus_dump='import json,sys
left = open("/proc/self/environ", "rb").read().decode("latin-1")
sys.stdout.write("\n\x1e" + json.dumps([int(sys.argv[1]), left]) + "\n")'
__primus_ended() {
  local code=$1
  case "$(trap -p EXIT)" in *__primus_ended*) trap - EXIT ;; esac
  set +eux
  "$__primus_python" -I -S -c "$__primus_dump" "$code" >&250
  if [ "$code" = 0 ] || [ "$code" = 2 ]; then
    __primus_left=("${__primus_left[@]:1}")
    __primus_next
    code=$?
  fi
  builtin exit "$code"
}
exit() {
  local code=${1:-$?}
  if [ "$BASHPID" = "$__primus_pid" ]; then __primus_ended "$code"; fi
  builtin exit "$code"
}
__primus_source() {
  local __primus_script=$1
  set --
  "$BASH" -O extglob -n "$__primus_script" || return 1  # `source` would answer 2 for what is no script
  source "$__primus_script"
}
__primus_next() {
  [ ${#__primus_left[@]} -gt 0 ] || return 0
  (
    __primus_pid=$BASHPID
    trap '__primus_ended $?' EXIT
    __primus_source "${__primus_left[0]}"
    __primus_ended $?
  )
}
__primus_python=$1
shift
__primus_left=("$@")
set --
__primus_next
"""


@frozen(kw_only=True)
class Patched:
    """One script that has ended, and what it did to the environment."""

    script: str
    skipped: bool
    exported: tuple[str, ...]
    """Names of the variables that are new or have another value."""
    unset: tuple[str, ...]
    lines: tuple[str, ...]
    """What it printed, without secrets."""


def run_patch_scripts(
    scripts: Sequence[str], env: Mapping[str, str], on_end: Callable[[Patched], None]
) -> dict[str, str]:
    """Source the scripts in their order; returns the environment that they leave.

    What they start in the background ends with them, unless it left their process group.

    Args:
        scripts: absolute paths.
        on_end: called for each that was done or skipped, when it has ended: what it printed may hold a secret that it
            exports, which is known only then.

    Raises:
        RunError: a script ended with another code than 0 and 2, or took the shell along.
        DependencyError: this host has no bash.
    """
    heard = _Heard(scripts, env, on_end)
    child = start(
        Process(argv=("bash", "--noprofile", "--norc", "-c", _DRIVER, "primus", sys.executable, *scripts)), env
    )
    try:
        with _ending_on_signals():
            for line in _lines(child):
                heard.line(line)
            heard.finish(child.wait())
    finally:
        signal_group(child, signal.SIGKILL)
        child.wait()
        _kill_group(child.pid)
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    return heard.env


class _Heard:
    """What bash said so far."""

    def __init__(self, scripts: Sequence[str], env: Mapping[str, str], on_end: Callable[[Patched], None]) -> None:
        self.env = dict(env)
        self._left = list(scripts)
        self._own = {name: value for name, value in env.items() if name in _OWN}
        self._on_end = on_end
        self._lines: list[str] = []
        self._failure: RunError | None = None

    def line(self, line: bytes) -> None:
        noise, mark, told = line.partition(_MARK)
        if not mark:
            self._lines.append(noise.decode("utf-8", "backslashreplace").rstrip("\r"))
            return
        code, left = json.loads(told)
        self._ended(code, _environment(left, self._own))

    def _ended(self, code: int, env: dict[str, str]) -> None:
        script, before, lines = self._left.pop(0), self.env, self._said(env)
        if code not in (0, SKIPPED):  # told when bash has ended: the script may have something to clean up
            self._failure = _failed(script, code, lines)
            return
        self.env = env
        changed = (name for name, value in env.items() if before.get(name) != value)
        self._on_end(
            Patched(
                script=script,
                skipped=code == SKIPPED,
                exported=tuple(sorted(changed)),
                unset=tuple(sorted(before.keys() - env.keys())),
                lines=lines,
            )
        )

    def finish(self, status: int) -> None:
        """Bash has ended.

        Raises:
            RunError: a script failed, or bash ended before it told that every script had.
        """
        if self._failure:
            raise self._failure
        if self._left and status in (0, SKIPPED):
            raise RunError(
                f"the patch script {self._left[0]} ended the shell, and its exports are lost",
                why="It replaced the shell (`exec`), or ended it in a way that could not be followed.",
                remedy="Let the script come to its end, or leave it with `exit`.",
            )
        if self._left:
            raise _failed(self._left[0], status, self._said({}))

    def _said(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """What the script printed, without the secrets of before and after it."""
        redactors = [Redactor.of_environment(secret_names(one), one) for one in (env, self.env)]
        lines, self._lines = self._lines, []
        for redact in redactors:
            lines = [redact(line) for line in lines]
        return tuple(lines)


def _environment(text: str, own: Mapping[str, str]) -> dict[str, str]:
    """From ``/proc/PID/environ``."""
    pairs = (os.fsdecode(pair.encode("latin-1")).partition("=") for pair in text.split("\0"))
    return {**{name: value for name, given, value in pairs if given and name not in _OWN}, **own}


def _failed(script: str, code: int, lines: Sequence[str]) -> RunError:
    how = f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
    return RunError(
        f"the patch script {script} {how}",
        why="\n".join(["its last lines:", *lines[-_SHOWN:]]) if lines else "It printed nothing.",
        remedy="0 means done and 2 skipped; anything else stops the run. Correct the script, or leave out --patch.",
    )


def _lines(child: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What bash and the scripts write, until it has ended."""
    if child.stdout is None:
        raise ValueError("the output of the scripts has no pipe")
    lines, quiet_since = Lines(), time.monotonic()
    while time.monotonic() - quiet_since < _LINGER_SECONDS or child.poll() is None:
        if not select.select([child.stdout], [], [], _TICK_SECONDS)[0]:
            continue
        quiet_since = time.monotonic()
        data = os.read(child.stdout.fileno(), 1 << 16)
        yield from lines.feed(data)
        if not data:
            return
    yield from lines.feed(b"")


def _kill_group(group: int) -> None:
    """End what the scripts left in the background."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Let a signal that asks us to end come as an exception, so that bash and the scripts end too."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
