"""A worker that cannot be ended costs its agent seconds, and is told."""

from __future__ import annotations

import os
import select
import signal
import time

import pytest

from primus_preflight.meeting import crew


def test_a_worker_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another takes its place, and the result of its test tells which process is left."""
    monkeypatch.setattr(crew, "_SERVE", "tests.preflight.held")
    worker = crew.Worker(None)
    tracers = [hear(worker)]
    worker.give({"id": 1})
    worker.give_up(0.1)
    began = time.monotonic()
    worker.restart()
    took = time.monotonic() - began
    assert worker.result
    assert "cannot be killed" in worker.result["error"]
    left = int(worker.result["error"].partition("its process ")[2].split()[0])
    tracers.append(hear(worker))
    for tracer in tracers:
        os.kill(tracer, signal.SIGKILL)
    os.waitpid(left, 0)
    assert worker.end()
    assert took < 8


def hear(worker: crew.Worker) -> int:
    """What it tells when it is ready."""
    assert select.select([worker], [], [], 60)[0]
    worker.hear()
    assert worker.port
    return worker.port
