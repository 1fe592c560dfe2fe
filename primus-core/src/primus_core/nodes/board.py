"""Word for nodes that cannot reach node 0: a folder in the experiment's, where they ask and it answers.

Each question has a name of its own that no other run can have used: an old answer is never taken for a new one.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from pathlib import Path
from types import TracebackType

from primus_core.errors import PrimusError
from primus_core.files import write_atomic
from primus_core.nodes.told import as_error, as_message

_FRESH_SECONDS = 10.0
"""A question that was not asked again for so long is of a node that has gone."""
_ANSWER_SECONDS = 4.0
_PAUSE_SECONDS = 0.2


class Question:
    """A file of a node that waits; a context that takes it away. A folder that cannot be written asks nothing.

    Args:
        folder: of the experiment.
    """

    def __init__(self, folder: str) -> None:
        self._asked = Path(folder, "nodes", f"{secrets.token_hex(8)}.asks")
        self._answer = self._asked.with_suffix(".told")

    def __enter__(self) -> Question:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._asked.unlink(missing_ok=True)
            self._answer.unlink(missing_ok=True)
            self._asked.parent.rmdir()

    def ask(self) -> PrimusError | None:
        """Ask, or ask again; what node 0 has answered."""
        with contextlib.suppress(OSError, ValueError):
            if self._answer.exists():
                return as_error(json.loads(self._answer.read_text(encoding="utf-8")))
            write_atomic(self._asked, "")
        return None


def answer(folder: str, nodes: int, error: BaseException) -> None:
    """Tell an error to the nodes that ask now or soon.

    Args:
        folder: of the experiment.
        nodes: how many may ask; when all have been answered there is nobody to wait for.
    """
    answered: set[str] = set()
    deadline = time.monotonic() + _ANSWER_SECONDS
    text = json.dumps(as_message(error))
    while len(answered) < nodes and time.monotonic() < deadline:
        for asked in Path(folder, "nodes").glob("*.asks"):
            with contextlib.suppress(OSError):
                if asked.name not in answered and time.time() - asked.stat().st_mtime < _FRESH_SECONDS:
                    write_atomic(asked.with_suffix(".told"), text)
                    answered.add(asked.name)
        time.sleep(_PAUSE_SECONDS)
