"""A job of Slurm after it was submitted: ``python -m primus_launchers.slurm.jobs status|requeue JOB``.

It asks the controller alone, which forgets a job some minutes after its end; a cluster need not have accounting.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

_STATES = {
    "pending": ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    "running": ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"),
    "completed": ("COMPLETED",),
    "cancelled": ("CANCELLED", "REVOKED"),
}
"""By our name the scheduler's; whatever else there is means that the job failed."""
_ORDER = ("running", "pending", "failed", "cancelled", "completed")
"""Of several tasks of an array, the state of the whole is the first of these that one of them has."""
_SECONDS = 30


def status(job: str) -> dict[str, object]:
    """What the controller says of a job: ``state``, ``text``, ``restarts``."""
    answer = _scontrol("show", "job", "--oneliner", job)
    if answer.returncode != 0:
        gone = "Invalid job id" in answer.stderr
        return {"state": "unknown", "text": "Slurm does not know it any more" if gone else _last(answer), "restarts": 0}
    tasks = [_fields(line) for line in answer.stdout.splitlines() if line.strip()]
    return min((_told(task) for task in tasks), key=lambda told: _ORDER.index(str(told["state"])))


def requeue(job: str) -> str:
    """Have a job that runs started again; returns why not, empty when it is queued.

    A job that somebody cancelled, or whose time is over, has another state by now and stays as it is.
    """
    answer = _scontrol("show", "job", "--oneliner", job)
    if answer.returncode != 0:
        return _last(answer)
    fields = _fields(answer.stdout)
    if (state := fields.get("JobState", "")) != "RUNNING":
        return f"it is {state}"
    if fields.get("Requeue") == "0":
        return "it was submitted with --no-requeue, or the cluster allows no requeue"
    asked = _scontrol("requeue", job)
    return _last(asked) if asked.returncode else ""


def _told(fields: Mapping[str, str]) -> dict[str, object]:
    own = fields.get("JobState", "").partition("+")[0]
    state = next((name for name, states in _STATES.items() if own in states), "failed")
    restarts = fields.get("Restarts", "0")
    return {"state": state, "text": _text(own, state, fields), "restarts": int(restarts) if restarts.isdigit() else 0}


def _text(own: str, state: str, fields: Mapping[str, str]) -> str:
    """``PENDING (Resources)``, ``RUNNING on node[1-2]``, ``FAILED, exit code 3``."""
    reason, nodes, code = (fields.get(name, "") for name in ("Reason", "NodeList", "ExitCode"))
    if state == "pending":
        start = fields.get("StartTime", "Unknown")
        begin = f", not before {start}" if reason == "BeginTime" and start != "Unknown" else ""
        return own if reason in ("", "None") else f"{own} ({reason}{begin})"
    if state == "running":
        return f"{own} on {nodes}"
    status, _, signal = code.partition(":")
    how = f"signal {signal}" if signal not in ("", "0") else f"exit code {status}"
    return own if code in ("", "0:0") else f"{own}, {how}"


def _fields(line: str) -> dict[str, str]:
    """``Name=value`` of the words of a line. Values with blanks lose what follows the first: none of ours has any."""
    return dict(word.partition("=")[::2] for word in line.split() if "=" in word)


def _scontrol(*words: str) -> subprocess.CompletedProcess[str]:
    argv = ["scontrol", *words]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace")
    except FileNotFoundError:
        return subprocess.CompletedProcess(argv, 127, "", "scontrol is not installed on this host")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"Slurm did not answer in {_SECONDS} s")


def _last(answer: subprocess.CompletedProcess[str]) -> str:
    lines = answer.stderr.strip().splitlines() or [f"scontrol ended with {answer.returncode}"]
    return lines[-1].removeprefix("scontrol: ").removeprefix("error: ")


def main(argv: Sequence[str]) -> int:
    """Print what a job is, as one line of JSON, or queue it again; returns the exit code."""
    what, job = argv
    own = os.environ.get("SLURM_JOB_ID")  # of a task of an array, which has a number of its own
    if what == "status":
        sys.stdout.write(f"{json.dumps(status(job))}\n")
        return 0
    refused = requeue(own or job)
    if refused:
        sys.stderr.write(f"{refused}\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
