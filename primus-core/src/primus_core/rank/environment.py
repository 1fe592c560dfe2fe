"""The variables that every rank can rely on, whoever started it."""

from __future__ import annotations

import socket
from collections.abc import MutableMapping

_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def complete(env: MutableMapping[str, str]) -> None:
    """Make a rank that nobody numbered the only one; give a single rank an address to meet itself at."""
    if "RANK" not in env:
        env.update(_ALONE)
    if env.get("WORLD_SIZE") == "1":
        env.setdefault("MASTER_ADDR", "127.0.0.1")
        if "MASTER_PORT" not in env:
            env["MASTER_PORT"] = str(_free_port())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
