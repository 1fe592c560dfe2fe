"""Tables of what other programs say when they fail: ``faults.json`` of a launcher's package."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

from attrs import frozen

from primus_core.errors import ExitCode


@frozen(kw_only=True)
class Fault:
    """One row."""

    id: str
    pattern: str
    """A regular expression for one line that the program wrote; large and small letters are one."""
    what: str
    """May have ``{words}`` that the launcher fills in."""
    remedy: str
    sample: str
    """What the program said in such a case."""
    exit_code: int = ExitCode.DEPENDENCY

    def found_in(self, text: str) -> bool:
        return re.search(self.pattern, text, re.IGNORECASE) is not None


@cache
def read_faults(package: str) -> tuple[Fault, ...]:
    """The table of a package; of two rows that fit a line, the earlier one is meant."""
    text = resources.files(package).joinpath("faults.json").read_text(encoding="utf-8")
    return tuple(Fault(**row) for row in json.loads(text))
