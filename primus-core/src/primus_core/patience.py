"""How long a run waits for its end, and which signals ask it to save first. Standard library only."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

_STOP = ("SIGTERM", "SIGUSR1")
_GRACE_SECONDS = 10.0
_STOP_SECONDS = 600.0
"""For a plan that does not say."""
_TORCHRUN_SECONDS = 30.0
_TORCHRUN_SHARE = 1.5


class Patience(NamedTuple):
    """How a run and its ranks end."""

    stop: tuple[int, ...] = ()
    """Signals that mean: finish the iteration, save, end with 0."""
    grace: float = _GRACE_SECONDS
    """Seconds that a rank may take to end when another failed or the run is interrupted."""
    stopping: float = _STOP_SECONDS
    """Seconds that it may take to finish the iteration and to save."""

    @property
    def torchrun(self) -> float:
        """Seconds that torchrun waits for a rank's parent, which needs some for what the rank leaves behind."""
        return max(_TORCHRUN_SECONDS, self.grace * _TORCHRUN_SHARE)


def patience_of(settings: Mapping[str, Any], kind: str) -> Patience:
    """From core's parameters; nothing but a training stops between two iterations."""
    names = settings.get("stop_signals")
    return Patience(
        stop=tuple(signal.Signals[name] for name in (_STOP if names is None else names)) if kind == "train" else (),
        grace=float(settings.get("grace_seconds") or _GRACE_SECONDS),
        stopping=float(settings.get("stop_seconds") or _STOP_SECONDS),
    )
