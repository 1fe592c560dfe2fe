"""A node that fails before it has come to the others tells them why: else they would wait for it in vain."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.nodes.knock import knock
from primus_core.nodes.line import GREETING, Line
from primus_core.nodes.listening import listen
from primus_core.nodes.place import asked_of, rough_place
from primus_core.nodes.told import as_message

_SERVE_SECONDS = 4.0
"""How long node 0 stays to tell those that come."""


def tell_the_others(error: PrimusError, env: Mapping[str, str], options: Mapping[str, Value]) -> None:
    """Tell them, as far as it is known who and where they are: what failed may be just that.

    Args:
        options: the section `direct:`, or nothing where it is what is wrong.
    """
    found = rough_place(env, options)
    if found is None:
        return
    nodes, address, port = found
    if asked_of(env, options)["node_rank"] in (0, "0"):
        _serve(nodes, port, as_message(error))
    else:
        with contextlib.suppress(PrimusError):  # the own failure is the one that is told here
            rank = str(asked_of(env, options)["node_rank"])
            knock(address, port, {"failed": as_message(error), "rank": rank, "host": socket.gethostname()})


def _serve(nodes: int, port: int, message: Mapping[str, object]) -> None:
    """Answer whoever comes, until all others have or the time is over."""
    deadline = time.monotonic() + _SERVE_SECONDS
    lines: list[Line] = []
    with contextlib.suppress(OSError), listen(port) as listener:
        while len(lines) < nodes - 1 and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                line = Line(listener.accept()[0])
                lines.append(line)
                line.send(hello=GREETING)
                line.send(error=message)
    for line in lines:
        line.close()
