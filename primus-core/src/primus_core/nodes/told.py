"""An error on its way to another node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError

_KINDS: dict[int, type[PrimusError]] = {
    ExitCode.USAGE: ConfigError,
    ExitCode.DEPENDENCY: DependencyError,
    ExitCode.RUNTIME: RunError,
}


def as_message(error: BaseException) -> dict[str, object]:
    """What `as_error` reads."""
    if not isinstance(error, PrimusError):
        return {"what": f"{type(error).__name__}: {error}", "code": int(ExitCode.RUNTIME)}
    return {**error.problems[0].told(), "code": int(error.exit_code)}


def as_error(told: Mapping[str, Any]) -> PrimusError:
    """The error that another node sent."""
    kind = _KINDS.get(int(told.get("code", ExitCode.RUNTIME)), RunError)
    fields = {name: str(told.get(name, "")) for name in ("where", "why", "remedy")}
    return kind(str(told.get("what", "the other node failed")), **fields)
