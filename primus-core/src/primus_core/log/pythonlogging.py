"""Make what is said through Python's `logging` and `warnings` record events."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from primus_core.log.emitter import Emitter
from primus_core.log.levels import level_of, number_of


def record_logging(emitter: Emitter, level: str) -> None:
    """Send the records of this process from ``level`` on, and its warnings, as events."""
    root = logging.getLogger()
    root.addHandler(RecordHandler(emitter))
    root.setLevel(number_of(level))
    logging.captureWarnings(True)


class RecordHandler(logging.Handler):
    """Sends the records of Python's `logging` as events; their logger is the source."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__()
        self._emitter = emitter

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._emitter.record(level_of(record.levelno), record.getMessage().strip(), record.name, _details(record))
        except Exception:  # noqa: BLE001  # logging's own rule: a bad record is reported on stderr and stops nothing
            self.handleError(record)


def _details(record: logging.LogRecord) -> dict[str, Any]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    return {"traceback": "".join(traceback.format_exception(*record.exc_info))}
