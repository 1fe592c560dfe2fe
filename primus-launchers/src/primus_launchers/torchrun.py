"""torchrun that passes signals on: ``python -m primus_launchers.torchrun`` with torchrun's own options.

torchrun itself ends its ranks at SIGTERM and SIGINT, kills those that need more than 30 s for it, exits with 1
whatever they made of it, and dies of SIGUSR1 and SIGUSR2 without a word to them.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
from types import FrameType

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
LEFT_TO_TORCHRUN = "SIGHUP,SIGQUIT"


class Forwarder:
    """Sends each signal to the ranks of this host, which torchrun waits for as if nothing had happened.

    A rank that ends with 0 because it was asked to is a success for torchrun too, also for that of the other nodes.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()

    def install(self) -> None:
        for number in FORWARDED:
            signal.signal(number, self._forward)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        ranks = _children()
        if not ranks and number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # there is no rank yet that could decide
            os.kill(os.getpid(), number)
        orphaned = os.getppid() != self._parent
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT if orphaned else number)


def _children() -> list[int]:
    """Of every thread of this process; torchrun starts nothing but ranks."""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


def main() -> None:
    """Become torchrun."""
    Forwarder().install()
    sys.argv.insert(1, f"--signals-to-handle={LEFT_TO_TORCHRUN}")
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
