"""Keep the values of secrets out of everything that is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from primus_core.log.records import utf8

MASK = "***"
_SHORTEST = 4


class Redactor:
    """Replaces the values of secret environment variables by ``***``.

    A value is also found as it looks inside JSON, and a value of several lines (a private key) line by line. Values of
    fewer than four characters stay: they are no secrets, and masking each ``1`` would destroy the log.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for part in (value, *value.splitlines()) for form in _forms(part.strip())}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._text = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        self._encoded = [utf8(form) for form in longest_first]

    @classmethod
    def of_environment(cls, names: Iterable[str], env: Mapping[str, str]) -> Redactor:
        """The redactor for those of the named variables that are set."""
        return cls(env[name] for name in names if name in env)

    def __call__(self, text: str) -> str:
        return self._text.sub(MASK, text) if self._text else text

    def finds(self, data: bytes) -> bool:
        """Whether UTF-8 text may hold a secret: a quick look at many lines at once."""
        return any(form in data for form in self._encoded)


def _forms(value: str) -> Iterable[str]:
    if len(value) < _SHORTEST:
        return ()
    return (value, utf8(value).decode("utf-8"), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
