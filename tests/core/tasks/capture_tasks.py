"""Tasks that say something in all the ways that a library may, and helper processes that do."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import structlog

from primus_core.contract import RankContext
from primus_core.plan import RunPlan

_LIBC = ctypes.CDLL(None)


def prints(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Python's ways and C's, to the standard streams and to a file of the user's own."""
    own = Path(str(plan.task.arguments["own"]))
    with own.open("w") as file:
        print("to my own file", file=file)
    with own.with_suffix(".2").open("w") as file:
        stdout, sys.stdout = sys.stdout, file
        print("redirected by hand")
        sys.stdout = stdout
    print("by print")
    print("to dunder stdout", file=sys.__stdout__)
    print("to dunder stderr", file=sys.__stderr__)
    print("in ", end="")
    print("parts")
    sys.stdout.buffer.write(b"to the buffer\n")
    sys.stdout.flush()
    os.write(1, b"to descriptor 1\n")
    os.write(2, b"to descriptor 2\n")
    _LIBC.puts(b"by puts")
    _LIBC.printf(b"by printf %d\n", 42)
    _LIBC.printf(b"in two ")
    _LIBC.printf(b"printfs\n")
    _LIBC.write(2, b"by write\n", 9)
    _LIBC.system(b"echo by a shell; echo by its stderr >&2")
    return {}


def speaks_structlog(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Plainly, and in all the ways that structlog adds something to what is said."""
    logger = structlog.get_logger("slog")
    logger.info("plain", n=1)
    logger.info("counted %d of %s", 3, "four", n=2)
    logger.bind(bound=True).warning("with its own", n=3)
    with structlog.contextvars.bound_contextvars(request="r7"):
        logger.debug("within", n=4)
    try:
        raise ValueError("of structlog")
    except ValueError:
        logger.exception("caught")
        logger.error("told", exc_info=True)
    logger.error("no exception", exc_info=False)
    logger.critical("and last", n=5)
    rank.log("warning", "of the rank", n=6)
    return {}


def ends(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Say the last words and end at once, in no good order."""
    print("a whole line")
    print("python's rest", end="", flush=True)
    _LIBC.printf(b" and C's rest")
    _LIBC.fflush(None)
    os.write(2, b"rest of stderr")
    if plan.task.arguments["how"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(9)


def prints_from_threads(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Eight threads print and log at once."""

    def talk(name: int) -> None:
        for number in range(500):
            print(f"thread {name} line {number:03} " + "x" * 80)
            logging.getLogger("threads").info("thread %d record %03d", name, number)

    threads = [threading.Thread(target=talk, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {}


class Samples:
    """A data set whose items are made in a helper process that talks, as a loader's worker does."""

    def __getitem__(self, index: int) -> int:
        if index == 0:
            speak("worker")
        return index * index


def speak(name: str) -> None:
    """What a helper process says."""
    print(f"{name} prints")
    sys.stderr.write(f"{name} writes to stderr\n")
    _LIBC.puts(f"{name} puts".encode())
    logging.getLogger("helpers").debug("%s debugs", name)
    logging.getLogger("helpers").warning("%s warns", name)
    warnings.warn(f"{name} deprecates", stacklevel=1)
    try:
        raise ValueError(f"{name} fails")
    except ValueError:
        logging.getLogger("helpers").exception("%s excepts", name)
    os.write(1, f"{name} leaves no newline".encode())


def fetch(samples: Samples, wanted: Queue[int | None], done: Queue[int]) -> None:
    """The loop of a loader's worker."""
    while (index := wanted.get()) is not None:
        done.put(samples[index])


def loads_in_workers(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """A loader with one worker, started as the plan says."""
    context: Any = multiprocessing.get_context(str(plan.task.arguments["method"]))
    wanted, done = context.Queue(), context.Queue()
    worker = context.Process(target=fetch, args=(Samples(), wanted, done), daemon=True)
    worker.start()
    for index in (0, 1, 2, None):
        wanted.put(index)
    try:
        squares = [done.get(timeout=40) for _ in range(3)]
    except queue.Empty:
        squares = []
    worker.join()
    return {"squares": squares, "code": worker.exitcode}


def speaks_late() -> None:
    """In a helper: the rank that started it is gone."""
    while os.getppid() == int(os.environ["TESTED_RANK"]):
        threading.Event().wait(0.02)
    logging.getLogger("helpers").warning("outlives its rank")


def leaves_a_speaker(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """End by os._exit while a spawned helper has still something to say."""
    os.environ["TESTED_RANK"] = str(os.getpid())
    context = multiprocessing.get_context("spawn")
    start: Callable[[], None] = context.Process(target=speaks_late).start
    start()
    os._exit(0)


def open_files(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """What this process has open."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return {"files": [os.readlink(link) for link in links if os.path.exists(link)]}
