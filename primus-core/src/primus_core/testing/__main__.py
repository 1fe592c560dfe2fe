"""The fresh interpreter of `primus_core.testing.isolated`: makes one call, writes its account, and ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from attrs import evolve

from primus_core.codec import from_json, to_json
from primus_core.errors import PrimusError
from primus_core.testing.isolated import Account, Call
from primus_core.testing.watching import Watch


def main(question: str, answer: str) -> None:
    """Read a `Call` from one file, write its `Account` to the other."""
    call = from_json(Call, Path(question).read_text(encoding="utf-8"))
    os.chdir(call.cwd)
    account = watched(call, Watch())
    Path(answer).write_text(to_json(account), encoding="utf-8")


def watched(call: Call, watch: Watch) -> Account:
    """Call twice: the first fills caches and imports what is needed, the second shows what every call does."""
    begun = time.process_time()
    try:
        hosts = call.load()
        account = call.answer(hosts)
        seconds = time.process_time() - begun
        with watch:
            call.answer(hosts)
    except PrimusError as error:
        account, seconds = Account(refusal=f"{type(error).__name__}: {error}\n{error.why}"), 0.0
    return evolve(account, deeds=tuple(watch.deeds), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
