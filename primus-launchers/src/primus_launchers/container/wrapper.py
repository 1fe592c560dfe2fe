"""The program on a node: makes a container, runs the ranks in it, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from primus_core import linux
from primus_core.errors import PrimusError, raise_all
from primus_core.log.events import encode
from primus_core.plan import Mount, Process
from primus_core.screens import problem_lines
from primus_core.submit.lines import sort_out
from primus_core.submit.processes import Child, descendants, kill, start
from primus_launchers.container import checks, faults
from primus_launchers.container.command import RUN_LABEL, USER_LABEL, Command
from primus_launchers.container.engine import PODMAN, Engine, choose
from primus_launchers.container.inside import KIND
from primus_launchers.container.node import caller
from primus_launchers.container.parsing import parse
from primus_launchers.container.relay import Signals, lines_of
from primus_launchers.container.request import Request
from primus_launchers.container.tables import needs_of, variables
from primus_launchers.container.words import gives
from primus_launchers.programs import problems_event

PROGRAM = "primus_launchers.container"
_KEPT = 40
_SIGNALLED = 128
_SETTLE_SECONDS = 5.0
_TICK = 0.02
_STRAY = "oom"


class Wrapper:
    """The program's state."""

    def __init__(self, request: Request, env: Mapping[str, str]) -> None:
        self._request, self._env = request, env
        self._events = env.get("PRIMUS_CONSOLE") == "events"
        self._parent = os.getppid()
        self._signals = Signals()
        self._said: deque[str] = deque(maxlen=_KEPT)
        """The last lines that the engine wrote to its standard error."""
        self._state = "unstarted"
        self._left = False

    def run(self) -> int:
        """Returns the exit status of the command in the container, else one that says why there is none."""
        self._signals.install()
        try:
            raise_all(list(checks.problems(self._request)))
            engine = choose(self._request.engine, self._request.image, self._env)
            self._clean(engine)
            status = self._fetch(engine)
            return status if status else self._contain(engine)
        except PrimusError as error:
            self._tell(error.problems)
            return int(error.exit_code)
        finally:
            _settle()

    def _clean(self, engine: Engine) -> None:
        """Remove what earlier runs of the same user left; nobody else's, and nothing that Primus did not make."""
        if not self._request.clean:
            return
        mine = engine.containers({USER_LABEL: str(os.getuid())})
        this_run = engine.containers({RUN_LABEL: self._request.run_id})
        if left := [one for one in mine if one not in this_run]:
            engine.remove(left)
            self._notice(f"removed {len(left)} container{'s' * (len(left) != 1)} of earlier runs")

    def _fetch(self, engine: Engine) -> int:
        """Have the image here; returns 0, or the status of an end that a signal asked for.

        Raises:
            DependencyError: it cannot be had.
        """
        image = self._request.image
        if engine.has(image) or gives(self._request.arguments, "pull"):
            return 0
        self._notice(f"{engine.kind} fetches {image}")
        child = start(Process(argv=(engine.path, "pull", image)), self._env)
        for line in lines_of(child):
            self._relay(line)
            if asked := self._signals.take():
                kill([child.pid])
                child.wait()
                return _SIGNALLED + asked[0]
        if status := child.wait():
            raise faults.unstarted(self._request, engine.kind, "", status, self._said)
        return 0

    def _contain(self, engine: Engine) -> int:
        """Run the command in a container to its end.

        Raises:
            PrimusError: it never ran, or was killed.
        """
        command = self._command(engine)
        child = start(Process(argv=command.argv), self._env, talks=True)
        self._send(child, env=command.variables)
        with _no_stray_file(engine):
            for line in lines_of(child):
                self._relay(line)
                self._pass_on_signals(child)
                _reap(child.pid)
        status = child.wait()
        if self._state != "ended":
            engine.remove([command.name])
        if self._state == "unstarted":
            raise faults.unstarted(self._request, engine.kind, command.name, status, self._said)
        if self._state == "started" and not self._left:
            raise faults.ended_by_others(self._request, status)
        return status

    def _command(self, engine: Engine) -> Command:
        request, table = self._request, variables()
        needs = needs_of(request.accelerator)
        environment = table.inherited(self._env, request.inherit, all_devices=not request.gpus)
        return Command(
            request=request,
            engine=engine,
            needs=needs,
            caller=caller(),
            name=self._name(),
            environment=environment,
            engine_variables=table.read_by_engines,
            caches=_folders(environment.get(name, "") for name in table.caches),
        )

    def _name(self) -> str:
        """Unique: nodes of a run may share an engine, and a run may be started again."""
        if self._request.name:
            number = self._env.get("NODE_RANK", "0")
            return self._request.name if number == "0" else f"{self._request.name}-{number}"
        return f"primus-{self._request.run_id}-{secrets.token_hex(4)}"

    def _pass_on_signals(self, child: Child) -> None:
        for number in self._signals.take():
            self._send(child, signal=number)
        if os.getppid() != self._parent and child.stdin and not child.stdin.closed:
            self._left = True
            child.stdin.close()  # whoever started us is gone

    def _send(self, child: Child, **message: object) -> None:
        with suppress(OSError, ValueError):  # nobody reads any more
            if child.stdin:
                child.stdin.write(json.dumps(message).encode("ascii") + b"\n")
                child.stdin.flush()

    def _relay(self, said: tuple[str, bytes] | None) -> None:
        if said is None:
            return
        name, line = said
        noise, event = sort_out(line)
        if noise.strip():
            self._write(2 if name == "err" else 1, noise + b"\n")
            if name == "err":
                self._said.append(noise.decode("utf-8", "replace").rstrip())
        if event is not None and event.get("kind") == KIND:
            self._state = str(event["state"])
        elif event is not None:
            self._write(1, encode(event))

    def _notice(self, text: str) -> None:
        if self._events:
            self._write(1, encode({"kind": "notice", "topic": "container", "text": text}))
        else:
            self._write(1, f"container: {text}\n".encode())

    def _tell(self, errors: Sequence[PrimusError]) -> None:
        if self._events:
            self._write(1, problems_event(errors))
        else:
            self._write(2, "".join(f"{text}\n" for text in problem_lines(errors)).encode())

    def _write(self, descriptor: int, data: bytes) -> None:
        with suppress(OSError):  # nobody reads any more
            while data:
                data = data[os.write(descriptor, data) :]


@contextmanager
def _no_stray_file(engine: Engine) -> Iterator[None]:
    """podman's watching program leaves an empty file ``oom`` in the current folder when memory has run out."""
    was_there = os.path.lexists(_STRAY)
    yield
    with suppress(OSError):
        if engine.kind == PODMAN and not was_there and os.path.getsize(_STRAY) == 0:
            os.unlink(_STRAY)


def _reap(but: int = 0) -> None:
    """Take the status of what podman left to us: it waits until the program that watches its container is gone.

    Asks the kernel alone: a look at the table of processes, several times a second, would cost a node some of its CPU.
    """
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == but:  # its status is taken by the one who started it
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _settle() -> None:
    """Give what podman left running the time to clean up, and end it then."""
    end = time.monotonic() + _SETTLE_SECONDS
    while descendants(os.getpid()) and time.monotonic() < end:
        _reap()
        time.sleep(_TICK)
    kill(descendants(os.getpid()))


def _folders(paths: Iterable[str]) -> tuple[Mount, ...]:
    """Those that are there now, made where that is possible; writable."""
    wanted = sorted({path for path in paths if os.path.isabs(path)})
    for path in wanted:
        with suppress(OSError):
            os.makedirs(path, exist_ok=True)
    return tuple(Mount(path=path, writable=True) for path in wanted if os.path.isdir(path))


def main() -> int:
    """The program; returns its exit status."""
    linux.adopt_orphans()
    return Wrapper(parse(sys.argv[1:], PROGRAM), os.environ).run()
