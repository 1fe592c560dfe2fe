"""What this process does beside computing: files, processes, connections, variables, imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Literal

from attrs import frozen

Kind = Literal["import", "read", "write", "process", "network", "variable"]

_EVENTS: Mapping[str, Kind] = {
    **dict.fromkeys(("os.listdir", "os.scandir"), "read"),
    **dict.fromkeys(("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"), "write"),
    **dict.fromkeys(("os.truncate", "os.chmod", "os.chown", "os.utime"), "write"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.fork", "os.exec", "os.posix_spawn"), "process"),
    "_thread.start_new_thread": "process",
    **dict.fromkeys(("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"), "network"),
    **dict.fromkeys(("os.putenv", "os.unsetenv"), "variable"),
}
"""Audit events of Python, by what they mean here."""


@frozen(kw_only=True)
class Deed:
    """One thing that was done."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"


class Watch:
    """Notes imports from now on, and everything else while it is open. One for a process: it cannot be taken out."""

    def __init__(self) -> None:
        self.deeds: list[Deed] = []
        self._open = False
        vars(os)["environ"] = _Variables(os.environ, self)
        sys.addaudithook(self._hear)

    def __enter__(self) -> Watch:
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False

    def note(self, kind: Kind, what: object) -> None:
        if self._open or kind == "import":
            self.deeds.append(Deed(kind=kind, what=str(what)))

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if event == "import":
            self.note("import", args[0])
        elif event == "open" and not isinstance(args[0], int):
            flags = args[2] if isinstance(args[2], int) else os.O_RDONLY
            self.note("read" if flags & os.O_ACCMODE == os.O_RDONLY else "write", args[0])
        elif event in _EVENTS:
            self.note(_EVENTS[event], f"{event} {args[0] if args else ''}")


class _Variables(MutableMapping[str, str]):
    """``os.environ``, noting which variables are asked for."""

    def __init__(self, real: MutableMapping[str, str], watch: Watch) -> None:
        self._real, self._watch = real, watch

    def __getitem__(self, name: str) -> str:
        self._watch.note("variable", name)
        return self._real[name]

    def __iter__(self) -> Iterator[str]:
        self._watch.note("variable", "all of them")
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def __setitem__(self, name: str, value: str) -> None:
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        del self._real[name]

    def copy(self) -> dict[str, str]:
        return dict(self)
