"""Starting the processes of a submission the way `primus run` does, with a script in the place of the rank."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from primus_core.files import write_atomic
from primus_core.log.redaction import Redactor
from primus_core.plan import Job, Process, Submission
from primus_core.submit.supervisor import Supervisor

RECORDER = """\
import json, os, sys
from pathlib import Path
folder, status, *words = sys.argv[1:]
env = {os.fsencode(name).hex(): os.fsencode(value).hex() for name, value in os.environ.items()}
record = {"argv": [os.fsencode(word).hex() for word in words], "env": env, "folder": os.fsencode(folder).hex()}
Path(folder, "rank-" + os.environ.get("RANK", "0")).write_text(json.dumps(record))
sys.exit(int(status))
"""
"""The rank's stand-in: writes down what reached it, byte for byte, and ends with the status that it is told."""


@frozen(kw_only=True)
class Started:
    """How the processes ended."""

    statuses: tuple[int, ...]
    killed: tuple[str, ...]
    """What is said about processes that outlived the submission."""
    output: str


@frozen(kw_only=True)
class Record:
    """What reached one rank."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: str


def start(processes: Sequence[Process], env: Mapping[str, str], log_dir: Path) -> Started:
    """Start processes in an environment and wait for their end."""
    notices: list[str] = []
    with Supervisor(
        on_event=lambda event: None, on_notice=notices.append, redact=Redactor(()), log_dir=log_dir
    ) as supervisor:
        ended = supervisor.run(processes, env)
    output = "".join(log.read_text(errors="replace") for log in sorted(log_dir.glob("host-*.log")))
    return Started(statuses=ended.statuses, killed=tuple(notices), output=output)


def recording(job: Job, folder: Path, words: Sequence[str] = (), status: int = 0) -> Job:
    """The job with the recorder in the place of the rank; records go to ``folder``."""
    folder.mkdir(parents=True)
    script = folder / "rank.py"
    script.write_text(RECORDER, encoding="utf-8")
    argv = (str(script), str(folder), str(status), *words)
    return evolve(job, python=sys.executable, argv=argv, log_dir=str(folder / "log"))


def carry_out(submission: Submission, env: Mapping[str, str], log_dir: Path) -> Started:
    """Write the submission's files and start its processes."""
    for name, text in submission.files.items():
        write_atomic(log_dir / name, text)
    return start(submission.processes, env, log_dir)


def records(folder: Path) -> dict[int, Record]:
    """What the recorders of a finished submission wrote, by rank."""
    return {int(path.name.removeprefix("rank-")): _read(path) for path in folder.glob("rank-*")}


def _read(path: Path) -> Record:
    found = json.loads(path.read_text())
    env = {_text(name): _text(value) for name, value in found["env"].items()}
    return Record(argv=tuple(map(_text, found["argv"])), env=env, folder=_text(found["folder"]))


def _text(hexadecimal: str) -> str:
    return bytes.fromhex(hexadecimal).decode("utf-8", "surrogateescape")
