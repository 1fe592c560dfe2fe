"""What a rank's child can tell of its collectives: who is in which group, the time spent waiting, the flight recorder.

Nothing here imports torch; all of it begins when the rank's own code has imported `torch.distributed`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MODULE = "torch.distributed.distributed_c10d"


def socket_name(rank: int) -> str:
    """Of the socket at which a rank's flight recorder is asked, in the folder of the rank's files."""
    return f"rank-{rank}.sock"


class Collectives:
    """Observes this process's use of `torch.distributed`."""

    def __init__(self) -> None:
        self._module: Any = None
        self._waited = 0.0
        self._groups_told = 0
        self._server: Any = None

    def observe(self, folder: str, rank: int) -> None:
        """Begin as soon as torch's module is there.

        Args:
            folder: where the socket is made; its path may be longer than an address of a socket may.
        """
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        address = f"/proc/self/fd/{descriptor}/{socket_name(rank)}"
        after_import(_MODULE, functools.partial(self._begin, address))

    def waited(self) -> float | None:
        """Seconds so far in which Python code waited for the others; None where nothing is known of that."""
        return None if self._module is None else self._waited

    def new_groups(self) -> Mapping[str, Sequence[int]]:
        """The global ranks of each process group, if groups were made since this was asked last; else empty."""
        if self._module is None or len(self._module._world.pg_names) == self._groups_told:
            return {}
        world = self._module._world
        self._groups_told = len(world.pg_names)
        mine = world.pg_names  # of groups to which this rank does not belong torch keeps a placeholder
        return {str(mine[group]): sorted(ranks) for group, ranks in world.pg_group_ranks.items() if group in mine}

    def end(self) -> None:
        """Stop answering: torch complains about a server that is left to the end of the interpreter."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()

    def _begin(self, address: str, module: ModuleType) -> None:
        self._time_waits(module)
        self._server = _answer_at(address)
        self._module = module

    def _time_waits(self, module: Any) -> None:
        """Add up the time in ``Work.wait``: with gloo a rank that is early stands there until the last has come."""
        work, clock = module.Work, time.perf_counter
        original = work.wait

        @functools.wraps(original)
        def wait(*given: Any, **named: Any) -> Any:
            start = clock()
            try:
                return original(*given, **named)
            finally:
                self._waited += clock() - start

        work.wait = wait


def _answer_at(address: str) -> Any:
    """A server within this process that needs no Python to answer; None where torch or the file system has none."""
    from torch._C import _distributed_c10d as c10d

    with contextlib.suppress(FileNotFoundError):  # of an earlier start
        os.unlink(address)
    with contextlib.suppress(RuntimeError, AttributeError, TypeError):
        return c10d._WorkerServer(address)
    return None


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call the action with a module once that has been imported; at once if it was."""
    if name in sys.modules:
        action(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Awaiting(name, action))


class _Awaiting(MetaPathFinder):
    """Finds one module as the other finders do, and has its loader tell."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self._have_told(spec.loader)
        return spec

    def _have_told(self, loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            original(module)
            self._action(module)

        loader.exec_module = exec_module
