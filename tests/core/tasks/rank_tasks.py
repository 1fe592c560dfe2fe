"""Tasks that the tests of the rank runtime start in real ranks."""

from __future__ import annotations

import atexit
import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path

import structlog

from primus_core.contract import RankContext
from primus_core.errors import ConfigError, ErrorGroup, RunError
from primus_core.plan import RunPlan

ROW = {"iteration": 1, "train_iters": 3, "loss": 2.5, "lr": 1e-3, "tokens_per_second": 1000.0, "step_seconds": 0.5}


def works(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Say something in every way there is."""
    for iteration in (1, 2, 3):
        rank.metrics({**ROW, "iteration": iteration})
    rank.notice("state", "all is well")
    rank.log("debug", "fine detail", depth=3)
    rank.log("warning", "mind the gap", where="two words", line="a\nb")
    logging.getLogger("somelib.inner").warning("library %s", "chatter")
    logging.getLogger("somelib").error("library failure")
    warnings.warn("deprecated thing", stacklevel=1)
    structlog.get_logger("primus_plugin").info("structured", answer=42)
    print("printed line")
    sys.stderr.write("on stderr\n")
    ctypes.CDLL(None).puts(b"from C")
    return {"loss": 2.5}


def unfinished_line(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    os.write(1, b"no newline at the end")
    return {}


def not_utf8(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    os.write(1, b"latin \xe9 and \x1b[31mred\x1b[0m and a bell \x07\n")
    return {}


def floods(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    line = "x" * 99 + "\n"
    for _ in range(200):
        sys.stdout.write(line * 1000)
    return {}


def killed(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    rank.metrics({**ROW, "iteration": 2})
    print("last words")
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def crashes(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def leaves_hard(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    os._exit(7)


def leaves_softly(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    sys.exit(int(str(plan.task.arguments["code"])))


def raises(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    raise ValueError("the loss is gone")


def raises_from(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    try:
        try:
            try:
                raise ImportError("hidden")
            except ImportError:
                raise OSError("no file") from None
        except OSError:
            raise KeyError("tokens")  # noqa: B904  # the context is what is tested
    except KeyError as error:
        raise ValueError("no batch") from error


def refuses(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    raise ConfigError("vocabulary too large", where="exp.yaml:7", why="300 > 256", remedy="use another tokenizer")


def refuses_twice(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    raise ErrorGroup([ConfigError("one", why="because\nof this"), RunError("two", where="key")])


def hangs_at_the_end(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Do the work, and leave something that keeps the interpreter from ending."""
    atexit.register(time.sleep, 60)
    if plan.task.arguments.get("leave"):
        sys.exit(0)
    return {"loss": 2.5}


def repeats_its_phase(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    for name in ("script", "script", "save", "save", "script"):
        rank.phase(name)
    return {}


def returns_nothing(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    return None  # type: ignore[return-value]  # the mistake that is tested


def tells_secrets(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    secret = rank.env["HUB_TOKEN"]
    print(f"token={secret}")
    os.write(2, f"split {secret[:4]}".encode())
    time.sleep(0.1)
    os.write(2, f"{secret[4:]} end\n".encode())
    rank.log("warning", f"logged {secret}", value=secret)
    rank.notice("state", f"noticed {secret}")
    raise RuntimeError(f"raised {secret}")


def sleeps(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    rank.notice("state", "asleep")
    time.sleep(60)
    return {}


def catches_signals(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Record each signal; end in good order at SIGTERM."""
    seen: list[str] = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda got, _: seen.append(signal.Signals(got).name))
    rank.notice("state", "ready")
    told = 0
    while "SIGTERM" not in seen:
        time.sleep(0.01)
        for name in seen[told:]:
            rank.notice("state", f"got {name}")
            told += 1
    return {"seen": seen}


def ignores_term(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rank.notice("state", "ready")
    time.sleep(60)
    return {}


def helper_commands(run_dir: str) -> tuple[str, str]:
    """Command lines of the helpers, which no other run has."""
    mark = zlib.crc32(run_dir.encode())
    return f"sleep 61.{mark}", f"sleep 62.{mark}"


def leaves_helpers(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """One helper holds the pipes, another is a daemon in a session of its own with a child."""
    holder, daemon = helper_commands(plan.run_dir)
    subprocess.Popen(holder.split())
    subprocess.Popen(
        ["sh", "-c", f"{daemon}; true"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return {}


def waits_with_helpers(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    leaves_helpers(plan, rank)
    return sleeps(plan, rank)


def environment(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    return {**{name: rank.env.get(name) for name in names}, "argv": len(sys.argv), "stdin": sys.stdin.read()}


def prepares(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """A preparation that counts how often it ran."""
    rank.progress("preparing", 1, 2, "files")
    time.sleep(0.3)
    count = Path(str(plan.task.arguments["count"]))
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    return {"torch": "torch" in sys.modules, "number": len(count.read_text())}


def uses_preparation(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    return {"prepared": rank.prepared("data")}


def bill() -> int:
    """What the patched library says, in whatever process this is called."""
    import shoplib  # type: ignore[import-not-found]  # a test writes it

    price: int = shoplib.price()
    return price


def trains_patched(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Use a patched library here and in a spawned helper."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return {"here": bill(), "helper": pool.apply(bill)}


def unknown_metric(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    rank.metrics({"iteration": 1, "perplexity": 3.0})
    return {}


class OneRankStore(dict[str, bytes]):
    """The store of a process group of one."""

    def check(self, keys: list[str], /) -> bool:
        return all(key in self for key in keys)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        return self.setdefault(key, desired.encode())

    def get(self, key: str, /) -> bytes:  # type: ignore[override]  # torch's raises too where there is none
        return self[key]


def trains(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Iterations of 20 ms; the one that is named stalls, as a collective does whose peer is gone."""
    store, stalls = OneRankStore(), plan.task.arguments.get("stalls_at")
    for iteration in range(1, 2000):
        rank.metrics({"iteration": iteration, "train_iters": 2000})
        if iteration == stalls:
            rank.notice("state", "stalled")
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                time.sleep(0.02)
        time.sleep(0.02)
        if rank.should_stop(iteration, store):
            return {"iteration": iteration, "checkpoint": f"/checkpoints/{iteration}"}
        if iteration == 1:
            rank.notice("state", "ready")
    return {"iteration": iteration}
