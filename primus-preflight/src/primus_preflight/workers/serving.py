"""A worker: waits for tests, runs them on its device, and says what came of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import distributed

from primus_preflight.meeting.wire import GoneError, Message, Wire
from primus_preflight.workers.communication import communicate
from primus_preflight.workers.computing import compute

_COMPUTE = ("gemm", "hbm", "train_step")


def serve(connection: socket.socket, device: int | None) -> None:
    """Answer the agent until it closes the connection.

    Args:
        device: index of the accelerator; None: the CPU.
    """
    wire = Wire(connection)
    connection.setblocking(True)
    place = _device(device)
    store = distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    wire.send({"port": store.port})
    with contextlib.suppress(GoneError):
        while True:
            for message in wire.receive():
                wire.send({**_result(message, place, wire), "id": message["id"]})


def _device(index: int | None) -> torch.device:
    if index is None:
        return torch.device("cpu")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _result(message: Message, device: torch.device, wire: Wire) -> Mapping[str, Any]:
    """The figures, or why there are none: what went wrong before the others were met is this rank's own fault."""
    stages: list[str] = []

    def stage(name: str) -> None:
        stages.append(name)
        wire.send({"stage": name})

    run: Callable[..., Mapping[str, Any]] = compute if message["work"] in _COMPUTE else communicate
    try:
        stage("prepare")
        return {"status": "ok", **run(message, device, stage)}
    except Exception as error:  # noqa: BLE001 - told as the result of the test
        text = str(error).strip().splitlines()
        late = "timed out" in str(error).lower() or "timeout" in str(error).lower()
        status = "timeout" if late else "error"
        return {"status": status, "stage": stages[-1], "error": f"{type(error).__name__}: {text[0] if text else ''}"}
