"""Looks at a node in processes of their own, each with a time limit: one that hangs or crashes costs itself alone."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NoReturn

from attrs import asdict, evolve, field

from primus_core import linux
from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.records import frozen
from primus_preflight.agent.ending import ended, kill_group, left_behind
from primus_preflight.model import Group, Probe

AT_ONCE = 8
"""Looks that run at the same time: most of them wait for a program or for the network."""
_CHUNK = 65536


class Unavailable(Exception):
    """There is nothing to look at. The text says what is missing."""


@frozen(kw_only=True)
class Outcome:
    """What a look has seen."""

    facts: Mapping[str, Value] = field(factory=dict)
    findings: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class Look:
    """A look that is to be taken."""

    name: str
    group: Group
    take: Callable[[], Outcome]
    """Runs in a process of its own; raises `Unavailable` where there is nothing to look at."""
    seconds: float = 10.0
    """Time limit; one that has not answered then is killed, with all that it started."""
    device: int | None = None

    def failed(self, status: Literal["error", "timeout", "unavailable"], error: str) -> Probe:
        return Probe(name=self.name, group=self.group, device=self.device, status=status, error=error)

    def answered(self, text: str) -> Probe:
        """What the process says of itself in `_taken`.

        Raises:
            ValueError, TypeError, KeyError: it is not all there.
        """
        told = json.loads(text)
        if told["status"] != "ok":
            return self.failed(told["status"], told["error"])
        findings = tuple(Finding(**finding) for finding in told["findings"])
        return evolve(self.failed("error", ""), status="ok", facts=told["facts"], findings=findings)


def probe_all(looks: Iterable[Look], at_once: int = AT_ONCE) -> tuple[Probe, ...]:
    """Take all looks; the answers are in the order of the looks.

    Must be called where no other thread runs: it forks.

    Args:
        at_once: how many may run at the same time.
    """
    waiting = list(enumerate(looks))[::-1]
    running: dict[int, _Running] = {}
    done: dict[int, Probe] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                number, look = waiting.pop()
                running[number] = _Running(look)
            select.select([one.reader for one in running.values()], [], [], min(one.left for one in running.values()))
            for number, one in list(running.items()):
                if answer := one.answer():
                    done[number] = answer
                    del running[number]
    finally:
        for one in running.values():  # none where nobody interrupts
            one.end()
    return tuple(done[number] for number in sorted(done))


class _Running:
    """A look in its process."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.reader, writer = os.pipe()
        self._output = os.memfd_create(look.name)
        self._told = bytearray()
        self._left_behind = False
        self._began = time.monotonic()
        self._pid = os.fork()
        if self._pid == 0:
            _child(look, writer, self._output)
        with contextlib.suppress(OSError):  # whoever comes first: the look does the same
            os.setpgid(self._pid, self._pid)
        os.close(writer)

    @property
    def left(self) -> float:
        """Seconds until its limit."""
        return max(0.0, self._began + self._look.seconds - time.monotonic())

    def answer(self) -> Probe | None:
        """What came of it; None while it may still answer."""
        silent = self._take_what_came()
        if not silent and self.left:
            return None
        status = self.end(wait=silent and not self._told)
        seconds = round(time.monotonic() - self._began, 3)
        return evolve(self._judged(status), seconds=seconds)

    def _take_what_came(self) -> bool:
        """Returns whether it will say no more."""
        while select.select([self.reader], [], [], 0)[0]:
            data = os.read(self.reader, _CHUNK)
            if not data:
                return True
            self._told += data
        return False

    def end(self, *, wait: bool = False) -> int | None:
        """Kill it and all that it started.

        Args:
            wait: let it end by itself, within its limit: how it ends is all that it tells.

        Returns:
            Its own exit code, negative for a signal; None where it had to be killed.
        """
        status = ended(self._pid, self.left if wait else 0.0)
        self._left_behind = not kill_group(self._pid)
        os.close(self.reader)
        return None if status is None else os.waitstatus_to_exitcode(status)

    def _judged(self, status: int | None) -> Probe:
        last = self._last_line()
        if self._left_behind:
            last = f"; {left_behind(self._pid)}{last}"
            if self._told:
                return self._look.failed("timeout", f"it told what it saw, and did not end{last}")
        if self._told:
            return self._read(last)
        if status is None:
            return self._look.failed("timeout", f"no answer within {self._look.seconds:g} s{last}")
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"
        return self._look.failed("error", f"{how}, and told nothing{last}")

    def _read(self, last: str) -> Probe:
        try:
            return self._look.answered(self._told.decode())
        except (ValueError, TypeError, KeyError):
            return self._look.failed("error", f"half an answer{last}")

    def _last_line(self) -> str:
        """What the look, or a program that it ran, said last on its standard output or error."""
        with open(self._output, "rb") as file:  # closes it
            file.seek(0)
            lines = file.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1]}" if said else ""


def _child(look: Look, writer: int, output: int) -> NoReturn:
    """The forked process: never returns to the code of its parent."""
    try:
        linux.die_with_parent(signal.SIGKILL)
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        data = json.dumps(_taken(look)).encode()
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _taken(look: Look) -> dict[str, object]:
    """In plain JSON: what makes records of it would be dear in each of many processes."""
    try:
        outcome = look.take()
        findings = [asdict(finding) for finding in outcome.findings]
        return {"status": "ok", "facts": dict(outcome.facts), "findings": findings}
    except Unavailable as missing:
        return {"status": "unavailable", "error": str(missing)}
    except PrimusError as error:
        return {"status": "error", "error": ": ".join(filter(None, (error.what, error.why)))}
    except Exception as error:  # noqa: BLE001 - told as the look's result, which is never a pass
        return {"status": "error", "error": f"{type(error).__name__}: {error}"}
