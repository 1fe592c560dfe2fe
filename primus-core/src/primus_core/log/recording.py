"""Make everything that a rank's code says through structlog, `logging` and `warnings` a record event."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

import structlog

from primus_core.log.emitter import Emitter
from primus_core.log.levels import LEVELS, level_of, strength

CORE_SOURCE = "primus"


def record_everything(emitter: Emitter, level: str) -> None:
    """Configure structlog and `logging` of this process; records below ``level`` are not even made."""
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.format_exc_info, _as_keywords],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=_Loggers(emitter),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.addHandler(RecordHandler(emitter))
    root.setLevel(_number(level))
    logging.captureWarnings(True)


def core_logger() -> structlog.typing.FilteringBoundLogger:
    """The logger of Primus' own records."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(CORE_SOURCE)
    return logger


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


class EventLogger:
    """What structlog writes to: each method takes the event and its values."""

    def __init__(self, emitter: Emitter, source: str) -> None:
        self._emitter = emitter
        self._source = source

    def debug(self, event: str, values: Mapping[str, Any]) -> None:
        self._emitter.record("debug", event, self._source, values)

    def info(self, event: str, values: Mapping[str, Any]) -> None:
        self._emitter.record("info", event, self._source, values)

    def warning(self, event: str, values: Mapping[str, Any]) -> None:
        self._emitter.record("warning", event, self._source, values)

    def error(self, event: str, values: Mapping[str, Any]) -> None:
        self._emitter.record("error", event, self._source, values)

    critical = exception = fatal = error
    warn = warning
    msg = info


class _Loggers:
    """Makes the logger of ``structlog.get_logger(source)``."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def __call__(self, *names: str) -> EventLogger:
        return EventLogger(self._emitter, names[0] if names else CORE_SOURCE)


def _as_keywords(
    logger: object, method: str, event_dict: structlog.typing.EventDict
) -> tuple[tuple[str, Mapping[str, Any]], dict[str, Any]]:
    """The last processor: the arguments of a method of `EventLogger`."""
    event = str(event_dict.pop("event", ""))
    if "exception" in event_dict:
        event_dict["traceback"] = event_dict.pop("exception")
    return (event, dict(event_dict)), {}


def _details(record: logging.LogRecord) -> dict[str, Any]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    return {"traceback": "".join(traceback.format_exception(*record.exc_info))}


def _number(level: str) -> int:
    return 10 * (1 + strength(level)) if level.lower() in LEVELS else logging.DEBUG
