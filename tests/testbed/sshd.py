"""Servers for ssh on hosts of the testbed: a key of their own, nothing of the machine's or the user's is touched."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.testbed.hosts import Hosts

SSHD = "/usr/sbin/sshd"


def lacking() -> str:
    """Why there can be no server; empty where there can."""
    missing = [tool for tool in ("ssh", "ssh-keygen") if shutil.which(tool) is None]
    missing += [SSHD] * (not os.path.exists(SSHD))
    return f"not installed: {', '.join(missing)}" if missing else ""


class Keys:
    """Keys and configurations of servers and of a client that may log in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in ("hostkey", "id", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "id.pub", folder / "authorized_keys")
        self.server = folder / "sshd_config"
        self.server.write_text(
            f"HostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            "PidFile none\nMaxStartups 100\n"
        )
        key = (folder / "hostkey.pub").read_text()
        (folder / "known").write_text(f"* {key}")

    def config(self, name: str = "config", **changes: str) -> Path:
        """A client's configuration; ``changes`` are options instead of the usual ones."""
        options = {
            "User": "root",
            "IdentityFile": f"{self.folder}/id",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f"{self.folder}/known",
            "GlobalKnownHostsFile": "/dev/null",
            **changes,
        }
        path = self.folder / name
        path.write_text("Host *\n" + "".join(f"  {key} {value}\n" for key, value in options.items()))
        return path


@contextlib.contextmanager
def servers(hosts: Hosts, keys: Keys, names: Sequence[str]) -> Iterator[None]:
    """Run a server on each of the hosts."""
    Path("/run/sshd").mkdir(exist_ok=True)
    running = [hosts.start(name, [SSHD, "-D", "-f", keys.server, "-E", keys.folder / f"{name}.log"]) for name in names]
    try:
        for name in names:
            _wait_for(hosts, name)
        yield
    finally:
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                hosts.signal(one, signal.SIGKILL)
            one.wait()
            for stream in filter(None, (one.stdin, one.stdout, one.stderr)):
                stream.close()  # a session of a host that was cut off may still hold the other end


def _wait_for(hosts: Hosts, name: str) -> None:
    end = time.monotonic() + 60
    probe = ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/22 && echo yes || echo no"]
    while hosts.check(name, probe).strip() != "yes":
        assert time.monotonic() < end, f"no server on {name}"
        time.sleep(0.05)


@contextlib.contextmanager
def server_of_this_host(keys: Keys) -> Iterator[int]:
    """Run a server on a free port of 127.0.0.1; gives the port."""
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    options = ["-o", "ListenAddress=127.0.0.1", "-p", str(port)]
    running = subprocess.Popen([SSHD, "-D", "-f", keys.server, "-E", keys.folder / "log", *options])
    try:
        end = time.monotonic() + 60
        while not _answers(port):
            assert time.monotonic() < end, "no server"
            time.sleep(0.05)
        yield port
    finally:
        running.terminate()
        running.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
