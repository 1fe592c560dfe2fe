"""Known causes of failures: a reviewed table, each row with a text that it was made for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib import resources

from attrs import frozen


@frozen(kw_only=True)
class KnownCause:
    """One row of ``causes.json``."""

    id: str
    kind: str
    pattern: str
    """A regular expression for one line: ``Type: text`` of an exception, or a line of a log."""
    what: str
    """The cause in plain words, to be read after "rank 3 failed: "."""
    remedy: str
    sample: str
    """What a library said in such a case."""

    def found_in(self, text: str) -> bool:
        return re.search(self.pattern, text) is not None


def known_causes() -> tuple[KnownCause, ...]:
    """The table; of two rows that fit a text, the earlier one is meant."""
    text = resources.files("primus_core.report").joinpath("causes.json").read_text(encoding="utf-8")
    return tuple(KnownCause(**row) for row in json.loads(text))


def cause_of(lines: Iterable[str]) -> tuple[KnownCause, str] | None:
    """The cause that the earliest known line tells of, with that line; None where nothing is known."""
    table = known_causes()
    hits = ((cause, line) for line in lines for cause in table if cause.found_in(line))
    return next(hits, None)
