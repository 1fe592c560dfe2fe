"""Several hosts on one machine: each has a name, an address, processes and mounts of its own; files are shared.

A host is a process in namespaces of its own, number 1 of its process namespace; a switch, which is another one, joins
them. Whatever ends this process, also SIGKILL, ends theirs, and with them go namespaces, cables and mounts: nothing is
left in the machine's own network.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from primus_core import linux

NETWORK = "10.77.0"
_TOOLS = ("ip", "tc", "unshare", "nsenter", "mount")
_SECONDS = 60.0
_FIRST = "while :; do sleep 1000000 & wait $!; done"
"""The first process of a host: a shell that takes the exit status of whatever becomes its child."""


def lacking() -> str:
    """Why hosts cannot be made here; empty where they can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


class Hosts:
    """``node1`` to ``nodeN``; a context manager.

    Args:
        folder: for their files.
        more: names of further hosts.
    """

    def __init__(self, count: int, folder: Path, more: Sequence[str] = ()) -> None:
        self.names = (*(f"node{number + 1}" for number in range(count)), *more)
        self._folder = folder
        self._switch: _Namespace | None = None
        self._hosts: dict[str, _Namespace] = {}

    def __enter__(self) -> Hosts:
        known = [f"{self.address(name)} {name}.cluster.test {name}" for name in self.names]
        (self._folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *known]) + "\n")
        try:
            self._switch = _Namespace(["--net", "--pid", "--fork"], "switch")
            self._in_switch("ip link add br0 type bridge")
            self._in_switch("ip link set br0 up")
            for name in self.names:
                self.boot(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for one in (*self._hosts.values(), *filter(None, [self._switch])):
            one.end()
        self._hosts.clear()

    def address(self, name: str) -> str:
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def boot(self, name: str) -> None:
        """Start a host and join it to the others."""
        host = _Namespace(["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc"], name)
        self._hosts[name] = host
        self._in_switch(f"ip link add {name} type veth peer name eth0 netns {host.first}")
        self._in_switch(f"ip link set {name} master br0 up")
        for command in (
            f"hostname {name}",
            f"mount --bind {self._folder}/hosts /etc/hosts",
            "ip link set lo up",
            f"ip address add {self.address(name)}/24 dev eth0",
            "ip link set eth0 up",
        ):
            self.check(name, command.split())

    def start(
        self, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start a program on a host, with its standard streams as pipes.

        What is sent to the process object reaches `nsenter` outside: see `signal`.
        """
        return subprocess.Popen(
            [*self._hosts[name].enter(cwd), *map(str, argv)],
            env=dict(env) if env is not None else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(linux.die_with_parent, signal.SIGKILL),
        )

    def command(self, name: str) -> list[str]:
        """The words before a command that have it run on a host, in this process's folder."""
        return self._hosts[name].enter(None)

    def check(self, name: str, argv: Sequence[str | Path]) -> str:
        """Run a program on a host to its end, which must be a good one; returns what it printed."""
        return _checked([*self._hosts[name].enter(None), *map(str, argv)])

    def signal(self, process: subprocess.Popen[str], number: int) -> None:
        """Send a signal to the program that `start` started."""
        for pid in _children(process.pid):
            os.kill(pid, number)

    def processes(self, name: str) -> list[str]:
        """The command lines of what runs on a host, but for its first process and that one's own."""
        found = []
        for pid in _below(self._hosts[name].first):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
                if command and command != "sleep 1000000":
                    found.append(command)
        return found

    def pids(self) -> list[int]:
        """Every process of all hosts and of the switch, as this machine counts them."""
        spaces = [one for one in (self._switch, *self._hosts.values()) if one is not None]
        return [pid for one in spaces for pid in (one.first, *_children(one.first))]

    def wait_quiet(self, seconds: float = _SECONDS) -> None:
        """Wait until nothing runs on any host; fails with what does."""
        deadline = time.monotonic() + seconds
        while running := {name: said for name in self._hosts if (said := self.processes(name))}:
            assert time.monotonic() < deadline, f"still running: {running}"
            time.sleep(0.05)

    def crash(self, name: str) -> None:
        """End a host with all its processes, without a word to anybody; `boot` brings it back."""
        self._hosts.pop(name).end()

    def is_up(self, name: str) -> bool:
        """Whether it was not crashed since it was booted."""
        return name in self._hosts

    def cut(self, name: str) -> None:
        """Take a host off the network."""
        self._in_switch(f"ip link set {name} down")

    def heal(self, name: str) -> None:
        """Undo `cut`."""
        self._in_switch(f"ip link set {name} up")

    def limit(self, name: str, rate: str) -> None:
        """Limit what a host sends and what it gets.

        Args:
            rate: as `tc` writes it: ``400mbit``.
        """
        shape = f"root tbf rate {rate} burst 128kb latency 50ms"
        self.check(name, f"tc qdisc replace dev eth0 {shape}".split())
        self._in_switch(f"tc qdisc replace dev {name} {shape}")

    def limit_way(self, sender: str, receiver: str, rate: str, others: str) -> None:
        """Limit what a host sends to one other host, and with another rate what it sends to all others."""
        for command in (
            "qdisc replace dev eth0 root handle 1: htb default 10",
            f"class replace dev eth0 parent 1: classid 1:10 htb rate {others} quantum 60000",
            f"class replace dev eth0 parent 1: classid 1:20 htb rate {rate} quantum 1500",
            "filter replace dev eth0 parent 1: protocol ip prio 1 "
            f"u32 match ip dst {self.address(receiver)}/32 flowid 1:20",
        ):
            self.check(sender, ["tc", *command.split()])

    def hide(self, name: str, folder: Path) -> None:
        """Give a host a folder of its own in the place of one that all share."""
        folder.mkdir(parents=True, exist_ok=True)
        self.check(name, ["mount", "-t", "tmpfs", "tmpfs", folder])

    def show(self, name: str, source: Path, folder: Path) -> None:
        """Have a host see another folder or file in the place of one that all share."""
        self.check(name, ["mount", "--bind", source, folder])

    def _in_switch(self, command: str) -> None:
        assert self._switch is not None
        _checked(["nsenter", "--target", str(self._switch.first), "--net", *command.split()])


class _Namespace:
    """A process in namespaces of its own."""

    def __init__(self, kinds: Sequence[str], name: str) -> None:
        self._forks = "--fork" in kinds
        self._outer = subprocess.Popen(
            ["unshare", *kinds, *["--kill-child"] * self._forks, "bash", "-c", _FIRST, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=partial(linux.die_with_parent, signal.SIGKILL),
        )
        self.first = self._find()
        """Number of the first process, as this machine counts."""

    def enter(self, cwd: Path | None) -> list[str]:
        """How a program is started in it."""
        kinds = ["--net", "--uts", "--mount", "--pid"]
        return ["nsenter", "--target", str(self.first), *kinds, f"--wd={cwd or os.getcwd()}", "--"]

    def end(self) -> None:
        for pid in (self.first, self._outer.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._outer.wait()

    def _find(self) -> int:
        """The shell, when its namespaces are made: then it has started to sleep."""
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            assert self._outer.poll() is None, f"unshare ended with {self._outer.returncode}"
            shells = _children(self._outer.pid) if self._forks else [self._outer.pid]
            if shells and _children(shells[0]):
                return shells[0]
            time.sleep(0.01)
        raise TimeoutError("a host did not start")


def _checked(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _below(pid: int) -> Iterator[int]:
    """All living descendants of the first process of a host, and what was started there from outside."""
    namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino
    for one in linux.processes():
        with contextlib.suppress(OSError):
            if one.pid != pid and not one.ended and os.stat(f"/proc/{one.pid}/ns/pid").st_ino == namespace:
                yield one.pid
