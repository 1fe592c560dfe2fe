"""``python -m primus_launchers.ssh.together``: starts one command on several hosts, and ends it on all of them.

First every host is asked whether it can start; nothing is started unless all can. When one fails or is lost, the
others end too. Events of the ranks pass through; other output is written with the name of its host before it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import selectors
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from primus_core import linux
from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError
from primus_core.log.events import encode
from primus_core.planning.hosts import Host
from primus_core.screens import problem_lines
from primus_core.submit.lines import sort_out
from primus_core.submit.processes import descendants, kill
from primus_launchers.programs import parse_before, problems_event
from primus_launchers.ssh import checks, faults
from primus_launchers.ssh.connection import Connection, ssh_command
from primus_launchers.ssh.sending import variables
from primus_launchers.ssh.wire import BEATS, KIND

CONNECT_SECONDS = 60.0
LOST_SECONDS = 30.0
_GRACE = 8.0
_END_SECONDS = 12.0
"""From the first failure until what is left is killed."""
_OTHERS_SECONDS = 3.0
"""How long the other hosts may still say that they fail too, before anything is started."""
_FIRST_SECONDS = 10.0
"""How long hosts that do not depend on each other wait for the first one, where the others find each other."""
_TICK = 0.2
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_OF_SSH = re.compile(
    r"(ssh|client_loop|kex_\w+|packet_write_\w+)[: ]|Connection |Timeout, |Received disconnect|Read from "
)
_ERRORS = {kind.exit_code: kind for kind in (ConfigError, DependencyError, RunError)}


class Together:
    """The program's state."""

    def __init__(self, args: argparse.Namespace, env: Mapping[str, str]) -> None:
        self._args, self._env = args, env
        self._events = env.get("PRIMUS_CONSOLE") == "events"
        self._hosts: list[Connection] = []
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._phase = "ready"
        """What the hosts are to say next: ready, met, ended."""
        self._errors: list[tuple[int, PrimusError]] = []
        """With the place of the host among all: they are told in this order."""
        self._began = time.monotonic()
        self._deadline: float | None = None

    def run(self) -> int:
        """Returns the exit status: 0 where the ranks of every host ended with 0."""
        for number in _FORWARDED:
            signal.signal(number, lambda number, frame: self._signals.append(number))
        try:
            self._connect()
            while not self._done():
                self._read()
                self._judge()
                self._pass_on_signals()
        finally:
            kill(descendants(os.getpid()))
        return self._leave()

    def _connect(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()
        hosts = [Host.of(word, "--hosts") for word in self._args.hosts.split(",")]
        plan = os.path.join(os.path.dirname(self._args.submission), "plan.json") if self._args.submission else ""
        common = {
            "nodes": len(hosts),
            "nproc": self._args.nproc,
            "runner": self._args.runner,
            "python": self._args.python,
            "argv": self._args.argv,
            "env": variables(self._env),
            "workdir": self._args.workdir,
            "log_dir": self._args.submission,
            "plan": plan,
            "digest": checks.digest(plan) if plan else None,
            "versions": checks.versions(),
            "lost_seconds": self._args.lost_seconds,
            "port": self._args.master_port,
        }
        for node, host in enumerate(hosts):
            one = Connection(host, ssh_command(host, self._args.python, self._args.ssh_config), self._env)
            self._hosts.append(one)
            for name, file in (("out", one.child.stdout), ("err", one.child.stderr)):
                if file is not None:
                    self._selector.register(file, selectors.EVENT_READ, (one, name))
            one.send(**common, host=host.name, node=node)

    def _beat(self) -> None:
        while True:
            time.sleep(self._args.lost_seconds / BEATS)
            for one in list(self._hosts):
                one.send(do="alive")

    def _done(self) -> bool:
        if self._deadline is not None and time.monotonic() > self._deadline:
            return True
        if self._apart:
            return all(one.gone or one.state in ("unstarted", "lost") for one in self._hosts)
        if self._errors and self._phase != "ended":
            return False  # nothing runs: the deadline is near, and others may have something to say
        return all(one.gone for one in self._hosts)

    def _read(self) -> None:
        if not self._selector.get_map():
            time.sleep(_TICK / 10)
        for key, _ in self._selector.select(_TICK):
            one, name = key.data
            data = os.read(key.fd, 1 << 16)
            one.heard = time.monotonic()
            for text in one.lines[name].feed(data):
                self._take(one, name, text)
            if not data:
                self._selector.unregister(key.fileobj)
                one.open -= 1

    def _take(self, one: Connection, name: str, text: bytes) -> None:
        noise, event = sort_out(text)
        if noise.strip():
            self._write(f"{one.host.name}: ".encode() + noise.rstrip(b"\r") + b"\n")
            if name == "err":
                one.said.append(noise.decode("utf-8", "replace").rstrip())
        if event is not None and event.get("kind") == KIND:
            self._hear(one, event)
        elif event is not None:
            self._write(encode(event))

    def _hear(self, one: Connection, event: Mapping[str, Any]) -> None:
        state = event["state"]
        if state == "alive":
            return
        one.state = state
        if state == "ready":
            one.ready = event
        elif state == "refused":
            kind = _ERRORS.get(ExitCode(event["exit_code"]), RunError)
            for problem in event["problems"]:
                self._fail(
                    one, kind(problem["what"], where=problem["where"], why=problem["why"], remedy=problem["remedy"])
                )
        elif state == "ended":
            one.status = event["status"]
            if one.status and not self._apart:
                self._end_all()

    def _judge(self) -> None:
        """What follows from what the hosts have said, and from what they have not."""
        for one in self._hosts:
            self._judge_one(one)
        if self._apart:
            self._start_ready_ones()
            return
        if self._errors or self._deadline is not None:
            return
        if self._phase == "ready" and all(one.state == "ready" for one in self._hosts):
            self._go_on("met", "meet")
        elif self._phase == "met" and all(one.state == "met" for one in self._hosts):
            self._go_on("ended", "start")

    @property
    def _apart(self) -> bool:
        """The hosts do not depend on each other."""
        return bool(self._args.runner == "plain")

    def _start_ready_ones(self) -> None:
        """Each as soon as it is known where the first one is, which is waited for a little."""
        ready = [one for one in self._hosts if one.ready]
        first_is_due = self._hosts[0].state == "connecting" and time.monotonic() < self._began + _FIRST_SECONDS
        if not ready or (first_is_due and not self._hosts[0].ready):
            return
        self._phase = "ended"
        for one in ready:
            if one.state == "ready":
                one.state = "started"
                address = self._args.master_addr or ready[0].ready["address"]
                one.send(do="start", address=address, port=ready[0].ready["port"])

    def _judge_one(self, one: Connection) -> None:
        if one.state in ("refused", "ended", "lost", "unstarted"):
            return
        silence, now = time.monotonic() - one.heard, time.monotonic()
        if one.state == "connecting":
            if one.gone:
                one.state = "unstarted"
                self._fail(one, faults.unstarted(one.host, self._args.python, one.child.returncode, one.said))
            elif now - self._began > self._args.connect_seconds:
                one.state = "unstarted"
                self._fail(one, faults.silent(one.host, self._args.connect_seconds, one.said))
        elif one.gone or silence > self._args.lost_seconds:
            one.state = "lost"
            why = f"nothing has come from it for {silence:.0f} s: the network is cut, or it stands still"
            self._lose(one, f"its connection has ended: {_last(one)}" if one.gone else why)

    def _lose(self, one: Connection, why: str) -> None:
        if self._deadline is None:  # else it ends because another one failed
            self._fail(one, faults.lost(one.host, why))

    def _go_on(self, phase: str, order: str) -> None:
        twice = self._named_twice()
        if twice is not None:
            self._fail(self._hosts[0], twice)
            return
        first = self._hosts[0].ready
        address = self._args.master_addr or first["address"]
        self._phase = phase
        for one in self._hosts:
            one.send(do=order, address=address, port=first["port"])

    def _named_twice(self) -> PrimusError | None:
        seen: dict[str, Connection] = {}
        for one in self._hosts:
            other = seen.setdefault(one.ready["machine"], one)
            if other is not one:
                return faults.same_machine(other.host, one.host)
        return None

    def _fail(self, one: Connection, error: PrimusError) -> None:
        self._errors.append((self._hosts.index(one), error))
        if self._apart:
            return
        if self._phase == "ended":
            self._end_all()
        else:
            self._deadline = self._deadline or time.monotonic() + _OTHERS_SECONDS

    def _end_all(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + _END_SECONDS
            for one in self._hosts:
                one.send(do="end", grace=_GRACE)

    def _pass_on_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if self._phase != "ended" and number in (signal.SIGINT, signal.SIGTERM):
                self._deadline = time.monotonic()  # nothing has been started
            for one in self._hosts:
                one.send(do="signal", number=number)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def _leave(self) -> int:
        if self._errors:
            errors = [error for _, error in sorted(self._errors, key=lambda one: one[0])]
            self._tell(errors)
            return int(errors[0].exit_code)
        statuses = [one.status for one in self._hosts]
        return next((status if status > 0 else ExitCode.RUNTIME for status in statuses if status), 0) or (
            ExitCode.RUNTIME if None in statuses else ExitCode.OK
        )

    def _tell(self, errors: Sequence[PrimusError]) -> None:
        if self._events:
            self._write(problems_event(errors))
        else:
            sys.stderr.write("".join(f"{text}\n" for text in problem_lines(errors)))


def _last(one: Connection) -> str:
    """What ssh said at last, which is not what the ranks and torchrun say through it; else its status."""
    said = next((line for line in reversed(one.said) if _OF_SSH.match(line)), "")
    return said or f"the program there is gone, ssh ended with status {one.child.returncode}"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="primus_launchers.ssh.together", allow_abbrev=False)
    parser.add_argument("--hosts", required=True, help="[user@]host[:port], separated by commas")
    parser.add_argument("--python", required=True, help="interpreter on the hosts")
    parser.add_argument("--nproc", type=int, default=1, help="ranks on each host")
    about = "plain: no host waits for another, or ends with it"
    parser.add_argument("--runner", choices=("torchrun", "plain"), default="torchrun", help=about)
    parser.add_argument("--workdir", default="", help="folder to start in")
    parser.add_argument("--submission", default="", help="folder of the launcher's files, in the run directory")
    parser.add_argument("--ssh-config", help="as ssh -F")
    parser.add_argument("--connect-seconds", type=float, default=CONNECT_SECONDS)
    parser.add_argument("--lost-seconds", type=float, default=LOST_SECONDS)
    parser.add_argument("--master-addr", default="")
    parser.add_argument("--master-port", type=int, default=0)
    return parse_before(parser, argv)


def main() -> int:
    """The program; returns its exit status."""
    linux.adopt_orphans()
    return int(Together(parse(sys.argv[1:]), os.environ).run())


if __name__ == "__main__":
    os._exit(main())  # a thread may wait for a connection that is cut
