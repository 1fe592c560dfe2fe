"""Where a rank stands, seen from its parent: Python stack, state of the process, collectives. Standard library only."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from primus_core.rank.collectives import socket_name
from primus_core.rank.stacks import Stacks

_STACK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.02
_MOST_ENTRIES = 200
_UNDESCRIBED = "undefined"
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)$')
_REQUEST = b"POST /handler/fr_trace_json HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


class Frame(NamedTuple):
    """One line of a Python stack."""

    file: str
    line: int
    function: str


class Call(NamedTuple):
    """One collective, or exchange of two ranks, that a rank has begun."""

    group: str
    """The name of the process group."""
    described: str
    """What it is for, as the code that made it says; may be empty."""
    number: int
    """Counted from 1 in each group; all of its ranks give the same collective the same number."""
    name: str
    """``all_reduce``."""
    sizes: str
    """Of what goes in: ``[[4, 8]]``."""
    done: bool
    between_two: bool
    """A send or receive, which has no number in common."""


def stack_of(handle: int, stacks: Stacks) -> list[Frame]:
    """Have the child write its stacks; those of its main thread, innermost first. Empty if it cannot even do that."""
    stacks.skip()
    try:
        signal.pidfd_send_signal(handle, signal.SIGUSR2)
    except OSError:  # it has ended
        return []
    said = _grown(stacks)
    stacks.skip()  # a crash later on is told by its own stack
    return main_thread(said)


def main_thread(text: str) -> list[Frame]:
    """Of what faulthandler wrote: it writes the thread that began first, which is the main one, last."""
    frames: list[Frame] = []
    for line in text.splitlines():
        if found := _FRAME.match(line):
            frames.append(Frame(found["file"], int(found["line"]), found["function"]))
        elif line.startswith(("Thread 0x", "Current thread 0x")):
            frames = []
    return frames


def process_state(pid: int) -> str:
    """The letter that ``ps`` shows: D: in the kernel and deaf to signals, T: stopped; empty: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def calls_of(folder: str, rank: int) -> list[Call]:
    """What the flight recorder has of the rank's latest collectives, oldest first; empty where there is none."""
    try:
        answer = _ask(folder, socket_name(rank))
        entries = json.loads(answer.partition(b"\r\n\r\n")[2]).get("entries", [])
        return [_call(entry) for entry in entries[-_MOST_ENTRIES:]]
    except (OSError, ValueError, KeyError, AttributeError, TypeError):  # no torch, or one that says it otherwise
        return []


def _grown(stacks: Stacks) -> str:
    """What is added to the file, as soon as it does not grow any more."""
    deadline, said = time.monotonic() + _STACK_SECONDS, ""
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        now = stacks.read()
        if now and now == said:
            break
        said = now
    return said


def _ask(folder: str, name: str) -> bytes:
    """The address goes through the folder's descriptor: a path may be longer than an address."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(f"/proc/self/fd/{descriptor}/{name}")
            connection.sendall(_REQUEST)
            return b"".join(_received(connection))
    finally:
        os.close(descriptor)


def _received(connection: socket.socket) -> Iterable[bytes]:
    while data := connection.recv(1 << 20):
        yield data


def _call(entry: dict[str, Any]) -> Call:
    return Call(
        group=str(entry["process_group"][0]),
        described="" if entry["process_group"][1] == _UNDESCRIBED else str(entry["process_group"][1]),
        number=int(entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"]),
        name=str(entry["profiling_name"]).partition(":")[2] or str(entry["profiling_name"]),
        sizes=json.dumps(entry["input_sizes"]),
        done=bool(entry["retired"]) or entry["state"] == "completed",
        between_two=bool(entry["is_p2p"]),
    )
