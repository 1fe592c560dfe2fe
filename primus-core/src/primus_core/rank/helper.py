"""Processes that a rank's own code spawns: they start without what the rank did to its process, so they do it again.

multiprocessing's ``spawn`` and ``forkserver`` import the main module of the process that asks, under the name
``__mp_main__``, before they unpickle the work. They leave out a package's ``__main__``, which is what a rank runs; so
the rank names `primus_core.rank.spawned` as its main module, and that joins the rank's log and applies its patches.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from primus_core.log.emitter import Emitter
from primus_core.log.pythonlogging import record_logging

if TYPE_CHECKING:
    from primus_core.contract import Store

_PLAN = "PRIMUS_PATCHED_PLAN"
_EVENTS = "PRIMUS_EVENTS"
_LEVEL = "PRIMUS_RECORD_LEVEL"
_MODULE = "primus_core.rank.spawned"


def have_helpers_recorded(emitter: Emitter, level: str, env: MutableMapping[str, str]) -> None:
    """In a rank that records what is said: make the helpers that it spawns from now on record it too.

    They inherit no descriptor but the standard ones, so they open the pipe by its name in ``/proc``.
    """
    env[_EVENTS] = emitter.address
    env[_LEVEL] = level
    env.pop(_PLAN, None)  # of a rank that this one was started from
    sys.modules["__main__"].__spec__ = find_spec(_MODULE)


def have_helpers_patched(plan_path: str, env: MutableMapping[str, str]) -> None:
    """In a rank that has applied its patches: make the helpers that it spawns from now on apply them too."""
    env[_PLAN] = plan_path


class HelperContext:
    """The rank's context in a helper: it has the rank's numbers and says nothing."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.rank = int(env["RANK"])
        self.local_rank = int(env.get("LOCAL_RANK", 0))
        self.world_size = int(env["WORLD_SIZE"])
        self.env = env

    def phase(self, name: str) -> None:
        """A helper has no phase of its own."""

    def metrics(self, row: Mapping[str, object]) -> None:
        """Metrics are the rank's."""

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Progress is the rank's."""

    def log(self, level: str, event: str, **values: object) -> None:
        """The rank has recorded the same."""

    def notice(self, topic: str, text: str) -> None:
        """The rank has said the same."""

    def should_stop(self, iteration: int, store: Store) -> bool:
        """The rank decides."""
        return False

    def prepared(self, name: str) -> Mapping[str, object]:
        return {}


def join_log(env: Mapping[str, str]) -> None:
    """In a helper: send what is said through `logging` and `warnings` to the log of the rank that spawned it.

    Where the pipe is out of reach, as in another container, lines go to stderr as is Python's default.
    """
    with contextlib.suppress(OSError, KeyError):
        pipe = os.open(env[_EVENTS], os.O_WRONLY | os.O_CLOEXEC)
        record_logging(Emitter(pipe), env[_LEVEL])


def repatch(env: Mapping[str, str]) -> None:
    """In a helper: apply and verify the patches of the rank that spawned it, where it has any.

    Raises:
        PrimusError: they cannot be applied; the helper ends and its traceback is in the rank's log.
    """
    if _PLAN not in env:
        return
    from primus_core import discovery, hooks  # what a helper of a rank without patches has no use for
    from primus_core.codec import from_json
    from primus_core.patching import verify
    from primus_core.plan import RunPlan

    path = env[_PLAN]
    plan = from_json(RunPlan, Path(path).read_text(encoding="utf-8"), source=path)
    back_end = hooks.load_rank(discovery.scan(), plan.framework)
    verify(plan, back_end.patch_backend(plan, HelperContext(env)))
