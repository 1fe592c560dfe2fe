"""The variables that every rank can rely on, whoever started it."""

from __future__ import annotations

from collections.abc import MutableMapping

from primus_core.ports import free_port

_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def complete(env: MutableMapping[str, str]) -> None:
    """Make a rank that nobody numbered the only one; give a single rank an address to meet itself at."""
    if "RANK" not in env:
        env.update(_ALONE)
    if env.get("WORLD_SIZE") == "1":
        env.setdefault("MASTER_ADDR", "127.0.0.1")
        if "MASTER_PORT" not in env:
            env["MASTER_PORT"] = str(free_port("127.0.0.1"))
