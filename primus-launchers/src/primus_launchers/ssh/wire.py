r"""What the program on the submitting host and the one on each host say to each other.

To a host goes one line of JSON each, over the standard input of ssh. The first is the request: what to start. Then:

=======  =================================================================================
alive    nothing to say, but still there
meet     ``address``, ``port``: try to reach the first host there
start    ``address``, ``port``: begin
signal   ``number``: for the ranks
end      end everything on this host; kill what is left after ``grace`` seconds
=======  =================================================================================

From a host come events (`primus_core.log.events`) of the kind ``ssh`` among the ranks' own, with a ``state``:
``alive``; ``ready`` with ``name``, ``machine``, ``address`` and ``port``; ``refused`` with ``problems``; ``met``;
``ended`` with ``status``. The end of the input, or silence for ``lost_seconds``, means that the other side is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KIND = "ssh"
BEATS = 3
"""Signs of life in the time after which silence means loss."""


def line(message: Mapping[str, Any]) -> bytes:
    """One message as a line. Undecodable bytes of a variable survive as lone surrogates."""
    return json.dumps(message).encode("ascii") + b"\n"


def message(text: bytes) -> dict[str, Any]:
    """The message of a line.

    Raises:
        ValueError: it is none.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no message")
    return found
