r"""Events: what a rank's child tells its parent, and a parent tells ``primus run``.

On the wire an event is one line, ``\x1e{json}\n`` (RFC 7464's record separator tells it from other output). The map
has a ``kind`` and the fields of that kind:

========  ===================================================================================
record    ``level``, ``source``, ``event`` and ``values`` as a log file has them, one line of text each: only from a
          parent; a child's records are those of `primus_core.log.wire`
metrics   ``row``, as `primus_core.log.metrics` defines it
progress  ``what``, ``done``, ``total`` (null: unknown), ``unit``
notice    ``topic``, ``text``
phase     ``name``
failure   ``type``, ``text``, ``traceback``, ``problems``: the exception that ends the rank
patches   ``results``: the ledger of the patches
result    ``value``: what the task's entry returned
========  ===================================================================================

A parent adds ``rank`` and ``host`` to what it forwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]
"""One event; the fields are JSON values."""

MARK = b"\x1e"


def encode(event: Event) -> bytes:
    """One event as a line. Scalars of numpy and torch become numbers, other objects their text."""
    return MARK + to_json(event).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """The event in a line with or without its newline; None for any other output."""
    if not line.startswith(MARK):
        return None
    try:
        text = line.decode("ascii")
        event, end = _decode_from(text, len(MARK))
    except ValueError:
        return None
    if end != len(text) and text[end:] != "\n":
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def to_json(value: object) -> str:
    """Strict JSON in one ASCII line; a number that is not finite is the text ``NaN``, ``Infinity`` or ``-Infinity``."""
    try:
        return _FAST.encode(value)
    except (TypeError, ValueError):
        return json.dumps(_strict(value))


def _plain(value: Any) -> object:
    """A JSON value for an object that JSON does not know."""
    item = getattr(value, "item", None)
    try:
        return item() if callable(item) else str(value)
    except (RuntimeError, TypeError, ValueError):  # an array or tensor of several elements
        return str(value)


_decode_from = json.JSONDecoder().raw_decode
_FAST = json.JSONEncoder(default=_plain, allow_nan=False)


def _strict(value: Any) -> object:
    """The slow way, for what the fast one refused: keys that are no text, and numbers that JSON has no spelling for."""
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    plain = _plain(value)
    return _strict(plain) if type(plain) is not type(value) else str(value)
