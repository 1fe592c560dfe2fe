"""podman or docker: which one answers, and what it says of images and containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from primus_core.errors import DependencyError

PODMAN, DOCKER = "podman", "docker"
AUTO = "auto"
_SECONDS = 60.0
"""For an answer; a daemon that hangs is one that does not answer."""
_SHOWN = 6


@frozen(kw_only=True)
class Answer:
    """What a short command came to."""

    status: int
    out: str
    said: str
    """Its standard error."""


@frozen(kw_only=True)
class Engine:
    """A program that runs containers, and answers."""

    path: str
    kind: str
    """``podman`` or ``docker``, whatever the program is called."""
    rootless: bool
    """Its containers' user 0 is the user who calls it."""
    env: Mapping[str, str]

    def ask(self, *words: str) -> Answer:
        return ask((self.path, *words), self.env)

    def has(self, image: str) -> bool:
        return self.ask("image", "inspect", "--format", "{{.Id}}", image).status == 0

    def containers(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Ids of the containers that have all these labels, running or not."""
        filters = [word for name, value in labels.items() for word in ("--filter", f"label={name}={value}")]
        return tuple(self.ask("ps", "--all", "--quiet", "--no-trunc", *filters).out.split())

    def remove(self, containers: Sequence[str]) -> Answer:
        """End and remove containers; one that is gone already is none."""
        return self.ask("rm", "--force", *containers)


def ask(argv: Sequence[str], env: Mapping[str, str]) -> Answer:
    """Run a short command; one that cannot be run, or says nothing for a long time, has a status that is not 0."""
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except OSError as error:
        return Answer(status=127, out="", said=str(error))
    except subprocess.TimeoutExpired:
        return Answer(status=124, out="", said=f"no answer within {_SECONDS:g} s")
    out, said = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return Answer(status=done.returncode, out=out, said=said)


def candidates(wanted: str) -> tuple[str, ...]:
    return (PODMAN, DOCKER) if wanted == AUTO else (wanted,)


def programs(wanted: str, path: str | None) -> tuple[str, ...]:
    """Paths of the programs that may be used, of those that are installed.

    Args:
        path: folders to look in, as ``PATH`` has them; None: those of this process.
    """
    found = (shutil.which(name, path=path) for name in candidates(wanted))
    return tuple(program for program in found if program)


def choose(wanted: str, image: str, env: Mapping[str, str]) -> Engine:
    """The engine that is asked for; for ``auto`` one that answers, and rather one that has the image already.

    Raises:
        DependencyError: none is installed, or none answers.
    """
    installed = programs(wanted, env.get("PATH"))
    if not installed:
        raise not_installed(wanted)
    answers = [(path, _facts(path, env)) for path in installed]
    engines = [_engine(path, answer, env) for path, answer in answers if answer.status == 0]
    if not engines:
        raise _silent(answers)
    return next((one for one in engines if one.has(image)), engines[0]) if len(engines) > 1 else engines[0]


def _facts(path: str, env: Mapping[str, str]) -> Answer:
    """Fails where nobody answers; docker without its daemon says so with status 0 too."""
    answer = ask((path, "info", "--format", "{{json .}}"), env)
    broken = _parsed(answer.out).get("ServerErrors")
    return Answer(status=1, out="", said="\n".join(broken)) if answer.status == 0 and broken else answer


def _engine(path: str, answer: Answer, env: Mapping[str, str]) -> Engine:
    facts = _parsed(answer.out)
    if "host" in facts:
        return Engine(path=path, kind=PODMAN, rootless=bool(facts["host"]["security"]["rootless"]), env=env)
    rootless = any("rootless" in option for option in facts.get("SecurityOptions") or ())
    return Engine(path=path, kind=DOCKER, rootless=rootless, env=env)


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def not_installed(wanted: str) -> DependencyError:
    names = " and ".join(candidates(wanted))
    return DependencyError(
        f"{'neither podman nor docker is' if wanted == AUTO else f'{names} is not'} installed on {os.uname().nodename}",
        why="the ranks run in a container, and one of these programs makes it",
        remedy="install podman or docker there, name the program (--engine PATH), or use `primus direct`",
    )


def _silent(answers: Sequence[tuple[str, Answer]]) -> DependencyError:
    return DependencyError(
        f"{' and '.join(path for path, _ in answers)} {'does' if len(answers) == 1 else 'do'} not answer "
        f"on {os.uname().nodename}",
        why="\n".join(_told(answers)),
        remedy=_remedy(" ".join(answer.said for _, answer in answers)),
    )


def _told(answers: Sequence[tuple[str, Answer]]) -> Iterator[str]:
    for path, answer in answers:
        lines = [line.strip() for line in answer.said.splitlines() if line.strip()][-_SHOWN:]
        yield f"{os.path.basename(path)}: " + ("\n".join(lines) or f"status {answer.status}")


def _remedy(said: str) -> str:
    if "permission denied" in said.lower():
        return "join the group that may use docker (`sudo usermod -aG docker $USER`, then log in again), or use podman"
    return "start the daemon (`sudo systemctl start docker`), or set DOCKER_HOST to where it listens; or use podman"
