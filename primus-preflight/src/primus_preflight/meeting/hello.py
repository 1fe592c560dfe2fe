"""The first message of an agent: who it is. Whoever says anything else is a stranger."""

from __future__ import annotations

from collections.abc import Mapping

from primus_preflight.meeting.wire import Message

HELLO_BYTES = 4096
HELLO_SECONDS = 5.0
"""Who has not said who it is by then is turned away."""
_FIELDS: Mapping[str, type] = {
    "run": str,
    "node": int,
    "host": str,
    "devices": int,
    "machine": str,
    "door": int,
}


def is_hello(message: Message, run_id: str, nodes: int) -> bool:
    """Whether this is what one of the nodes of a run says.

    Args:
        message: ``run``; ``node``, its number; ``host``, its name; ``devices``, its number of accelerators;
            ``machine``, see `primus_preflight.meeting.joining.own_machine`; ``door``, the port where others try to
            reach it.
        nodes: how many the run has.
    """
    if any(type(message.get(name)) is not kind for name, kind in _FIELDS.items()):
        return False
    in_range: bool = 0 <= message["node"] < nodes and 0 < message["door"] < 1 << 16 and message["devices"] >= 0
    return in_range and bool(message["run"] == run_id)
