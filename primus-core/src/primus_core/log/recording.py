"""Make everything that a rank's code says through structlog, `logging` and `warnings` a record event.

This module alone knows structlog. Where rich is installed, structlog would import it for coloured tracebacks on a
terminal: 0.08 s of CPU in every rank for what no rank ever shows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

if "rich" in sys.modules:
    import structlog
else:
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's own way to say: this is not to be found
    import structlog

    del sys.modules["rich"]

from primus_core.log.emitter import Emitter
from primus_core.log.levels import number_of
from primus_core.log.pythonlogging import record_logging

CORE_SOURCE = "primus"


def record_everything(emitter: Emitter, level: str) -> None:
    """Configure structlog and `logging` of this process; records below ``level`` are not even made."""
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _as_arguments],
        wrapper_class=structlog.make_filtering_bound_logger(number_of(level)),
        logger_factory=_Loggers(emitter),
        cache_logger_on_first_use=True,
    )
    record_logging(emitter, level)


def core_logger() -> structlog.typing.FilteringBoundLogger:
    """The logger of Primus' own records."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(CORE_SOURCE).bind()
    return logger


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


def _as_arguments(
    logger: object, method: str, event_dict: structlog.typing.EventDict
) -> tuple[tuple[str, Mapping[str, Any]], dict[str, Any]]:
    """The last processor: the arguments of a method of `EventLogger`."""
    if "exc_info" in event_dict:
        event_dict = structlog.processors.format_exc_info(logger, method, event_dict)
    if "exception" in event_dict:
        event_dict["traceback"] = event_dict.pop("exception")
    return (str(event_dict.pop("event", "")), event_dict), {}
