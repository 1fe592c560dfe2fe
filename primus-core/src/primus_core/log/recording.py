"""Make everything that a rank's code says through structlog, `logging` and `warnings` a record event.

This module alone knows structlog. Where rich is installed, structlog would import it for coloured tracebacks on a
terminal: 0.08 s of CPU in every rank for what no rank ever shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partialmethod
from typing import Any

if "rich" in sys.modules:
    import structlog
else:
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's own way to say: this is not to be found
    import structlog

    del sys.modules["rich"]

from structlog.contextvars import get_contextvars, merge_contextvars
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from primus_core.log.emitter import Emitter
from primus_core.log.levels import LEVELS, number_of
from primus_core.log.pythonlogging import record_logging

CORE_SOURCE = "primus"


def record_everything(emitter: Emitter, level: str) -> None:
    """Configure structlog and `logging` of this process; records below ``level`` are not even made."""
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=_quick(structlog.make_filtering_bound_logger(number_of(level)), number_of(level)),
        logger_factory=_Loggers(emitter),
        cache_logger_on_first_use=True,
    )
    record_logging(emitter, level)


def core_logger() -> FilteringBoundLogger:
    """The logger of Primus' own records."""
    logger: FilteringBoundLogger = structlog.get_logger(CORE_SOURCE).bind()
    return logger


class EventLogger:
    """What structlog writes to: each method takes the event and its values."""

    def __init__(self, emitter: Emitter, source: str) -> None:
        self._emitter = emitter
        self._source = source

    def record(self, level: str, event: object, values: Mapping[str, Any]) -> None:
        self._emitter.record(level, str(event), self._source, values)

    debug = partialmethod(record, "debug")
    info = msg = partialmethod(record, "info")
    warning = warn = partialmethod(record, "warning")
    error = critical = exception = fatal = partialmethod(record, "error")


class _Loggers:
    """Makes the logger of ``structlog.get_logger(source)``."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def __call__(self, *names: str) -> EventLogger:
        return EventLogger(self._emitter, names[0] if names else CORE_SOURCE)


def _quick(logger: type[FilteringBoundLogger], lowest: int) -> type[FilteringBoundLogger]:
    """A logger that goes around structlog's processors where they have nothing to do: a third of a record's cost."""
    recorded = [level for level in LEVELS if number_of(level) >= lowest]
    return type(logger.__name__, (logger,), {level: _method(level, getattr(logger, level)) for level in recorded})


def _method(level: str, general: Callable[..., object]) -> Callable[..., object]:
    def method(self: Any, event: object, *args: object, **values: Any) -> object:
        if args or self._context or self._processors is not _PROCESSORS or "exc_info" in values or get_contextvars():
            return general(self, event, *args, **values)
        return self._logger.record(level, event, values)

    return method


def _as_arguments(
    logger: object, method: str, event_dict: EventDict
) -> tuple[tuple[str, Mapping[str, Any]], dict[str, Any]]:
    """The last processor: the arguments of a method of `EventLogger`."""
    if "exc_info" in event_dict:
        event_dict = structlog.processors.format_exc_info(logger, method, event_dict)
        if "exception" in event_dict:
            event_dict["traceback"] = event_dict.pop("exception")
    return (str(event_dict.pop("event", "")), event_dict), {}


_PROCESSORS: list[Processor] = [merge_contextvars, _as_arguments]
