"""What an engine says when it cannot make a container, in words that tell what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError
from primus_launchers.container.request import Request
from primus_launchers.faulttable import Fault, read_faults

_SHOWN = 6
_NOISE = re.compile(r"^(Run '.*--help'|See '.*--help'|Usage:|Trying to pull|WARNING: |\s*$)")
_KILLED = 137
_ERROR, _PART = "error: ", len("  why: ")


def known_faults() -> tuple[Fault, ...]:
    """What engines, and interpreters of images, say."""
    return read_faults("primus_launchers.container")


def unstarted(request: Request, engine: str, name: str, status: int, said: Collection[str]) -> PrimusError:
    """The error of a container in which nothing ever ran.

    Args:
        status: of the engine.
        said: what it wrote to standard error.
    """
    if told := _told_inside([*said]):
        return told
    lines = [line for line in said if not _NOISE.match(line)][-_SHOWN:]
    words = {"image": request.image, "engine": engine, "python": request.python, "name": name}
    why = "\n".join(lines) or f"{engine} ended with status {status} and no word"
    fault = next((row for row in known_faults() if any(map(row.found_in, lines))), None)
    if fault is None:
        what = f"{engine} could not start a container on {os.uname().nodename}"
        return DependencyError(what, why=why, remedy=f"see whether `{engine} run --rm {request.image} true` works")
    kind = ConfigError if fault.exit_code == ExitCode.USAGE else DependencyError
    return kind(fault.what.format(**words), where=os.uname().nodename, why=why, remedy=fault.remedy.format(**words))


def _told_inside(said: list[str]) -> DependencyError | None:
    """What the code that was brought along says of a Python that cannot run it, as `primus_core.screens` looks."""
    begin = next((number for number, line in enumerate(said) if line.startswith(_ERROR)), None)
    if begin is None:
        return None
    parts = {line[:_PART].strip(): line[_PART:].strip() for line in said[begin + 1 :] if line.startswith("  ")}
    return DependencyError(
        said[begin].removeprefix(_ERROR), why=parts.get("why:", ""), remedy=parts.get("try:", "take another image")
    )


def ended_by_others(request: Request, status: int) -> PrimusError:
    """The error of a container that ended before what ran in it did."""
    if status != _KILLED:
        why = f"its engine reports status {status}"
        return RunError(f"the container on {os.uname().nodename} is lost", why=why, remedy="see the engine's own log")
    limit = f", and it may use {request.memory} of memory" if request.memory else ""
    return RunError(
        f"the container on {os.uname().nodename} was killed",
        why=f"all that ran in it got SIGKILL at once: memory ran out, or somebody removed it{limit}",
        remedy="give it more memory (--memory), or see who stopped it",
    )
