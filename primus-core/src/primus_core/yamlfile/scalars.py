"""The scalars of YAML 1.2's core schema (https://yaml.org/spec/1.2.2/, section 10.3)."""

from __future__ import annotations

import math
import re

from primus_core.errors import ConfigError
from primus_core.experiment import Origin
from primus_core.yamlfile.nodes import Scalar

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SPECIAL = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_STAND_IN = re.compile("[\ud800-\udfff]")
_LONGEST_NUMBER = 300
"""Characters; beyond the range of a float, and Python refuses to print integers of some thousands."""

UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What may stand in no YAML text: control characters, and the stand-ins for bytes that are not UTF-8."""


def resolve(text: str) -> bool | int | float | str | None:
    """The value of a scalar without quotes. A number too large for a float is text, like everything else."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] in "+-.0123456789" and len(text) <= _LONGEST_NUMBER:
        return _number(text)
    return text


def scalar(text: str, origin: Origin) -> Scalar:
    """The scalar that a word of the command line or the environment stands for; ``TRUE`` and ``tRue`` are true.

    Raises:
        ConfigError: the word has control characters or bytes that are not UTF-8.
    """
    refuse_unprintable(text, str(origin))
    word = text.strip()
    value = _BOOLS[word.lower()] if word.lower() in _BOOLS else resolve(word)
    return Scalar(value=value, text=None if isinstance(value, str) else word, origin=origin)


def is_utf8(text: str) -> bool:
    """Whether a text has no stand-ins for bytes that are not UTF-8."""
    return _STAND_IN.search(text) is None


def refuse_unprintable(text: str, where: str) -> None:
    found = UNPRINTABLE.search(text)
    if found:
        raise ConfigError(
            f"a character that YAML does not allow: {found.group()!a}",
            where=where,
            why="text must be UTF-8 without control characters",
            remedy="remove the character, or save the file as UTF-8",
        )


def _number(text: str) -> int | float | str:
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return _SPECIAL.get(text, text)
