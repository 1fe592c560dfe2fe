"""What ssh says when it cannot start the program on a host, in words that tell what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from primus_core.errors import DependencyError, PrimusError, RunError
from primus_core.planning.hosts import Host

_SHELL_STATUS = (126, 127)
"""A shell's answer for a program that is not there or cannot be executed."""
_SHOWN = 4
_NOISE = re.compile(r"^(Warning: Permanently added|Pseudo-terminal|\*\* )")
_ASKS = "ssh must come in without a question: it is run in batch mode"


def unstarted(host: Host, python: str, status: int | None, said: Sequence[str]) -> PrimusError:
    """The error of a host on which the program never spoke.

    Args:
        status: of ssh.
        said: what ssh and the host's shell wrote to standard error.
    """
    lines = [line for line in said if line.strip() and not _NOISE.match(line)][-_SHOWN:]
    why, text = "\n".join(lines), " ".join(lines)
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in " ".join(said):
        remedy = f"if that is right, `ssh-keygen -R {host.name}`, then log in once by hand"
        return RunError(f"the host key of {host.name} is another one than before", why=why, remedy=remedy)
    if "Host key verification failed" in text or "host key is known" in text:
        remedy = f"log in once by hand (`ssh {_login(host)}`) and confirm the key, or add it to known_hosts"
        return RunError(f"the host key of {host.name} is not known", why=f"{why}\n{_ASKS}", remedy=remedy)
    if "Permission denied (" in text or "Too many authentication failures" in text:
        remedy = f"let `ssh {_login(host)}` log in with a key, without a password; user@{host.name} names another user"
        return RunError(f"{host.name} does not let you in: permission denied", why=f"{why}\n{_ASKS}", remedy=remedy)
    if "Could not resolve hostname" in text:
        return RunError(f"no host {host.name} is known", why=why, remedy="check its spelling, or the ssh configuration")
    if "No module named" in text:
        remedy = "install primus-launchers for it there, or name another interpreter: ssh.python"
        return DependencyError(f"Primus is not installed for {python} on {host.name}", why=why, remedy=remedy)
    if status in _SHELL_STATUS:
        remedy = "install the same environment at the same path on every host, or name the interpreter: ssh.python"
        return DependencyError(f"there is no Python at {python} on {host.name}", why=why, remedy=remedy)
    return _unreached(host, status, why)


def _unreached(host: Host, status: int | None, why: str) -> PrimusError:
    if status == 255:
        return RunError(
            f"{host.name} cannot be reached", why=why, remedy=f"check that it is up and that `ssh {_login(host)}` works"
        )
    told = why or f"ssh ended with status {status} and no word"
    return RunError(f"nothing could be started on {host.name}", why=told, remedy=f"try `ssh {_login(host)} true`")


def silent(host: Host, seconds: float, said: Sequence[str]) -> PrimusError:
    """The error of a host from which ssh brought no answer in time."""
    lines = [line for line in said if line.strip()][-_SHOWN:]
    return RunError(
        f"{host.name} did not answer within {seconds:g} s",
        why="\n".join(lines) or "ssh neither came in nor failed",
        remedy=f"see where `ssh -v {_login(host)} true` waits; ssh.connect_seconds allows more time",
    )


def lost(host: Host, why: str) -> PrimusError:
    """The error of a host that is gone in the middle of a run."""
    return RunError(
        f"the host {host.name} is lost",
        why=why,
        remedy="see whether it is up; auto_continue_train=true goes on from the last checkpoint",
    )


def same_machine(first: Host, second: Host) -> PrimusError:
    return RunError(
        f"{first.name} and {second.name} are one host",
        why="each host is started once, with all its ranks",
        remedy="name it once; --nproc says how many ranks",
    )


def _login(host: Host) -> str:
    port = f"-p {host.port} " if host.port else ""
    return f"{port}{host.user}@{host.name}" if host.user else f"{port}{host.name}"
