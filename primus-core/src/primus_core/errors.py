"""The errors a user sees: what happened, where, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of every Primus command."""

    OK = 0
    DEPENDENCY = 1
    """A library, plugin, image or tool is missing, broken or of the wrong version."""
    USAGE = 2
    """The arguments or the configuration are wrong; nothing was started."""
    RUNTIME = 3
    """The run started and failed."""


class PrimusError(Exception):
    """A failure that is told to the user in one screen, without a traceback.

    Args:
        what: one sentence, what is wrong.
        where: ``file:line`` or the key, host or rank concerned; empty when there is none.
        why: the rule that was broken or the underlying message; may have several lines.
        remedy: what the user can do now.
    """

    exit_code: ExitCode = ExitCode.RUNTIME

    def __init__(self, what: str, *, where: str = "", why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what

    @property
    def problems(self) -> tuple[PrimusError, ...]:
        """Each problem by itself: the error, or those of a group."""
        return (self,)

    def told(self) -> dict[str, str]:
        """What is said of it, by name, for who passes it on."""
        return {"what": self.what, "where": self.where, "why": self.why, "remedy": self.remedy}


class ConfigError(PrimusError):
    """The experiment, a preset, an override or a command-line argument is wrong."""

    exit_code = ExitCode.USAGE


class DependencyError(PrimusError):
    """A library, plugin or tool that the run needs is missing or unusable."""

    exit_code = ExitCode.DEPENDENCY


class RunError(PrimusError):
    """The run started and failed."""

    exit_code = ExitCode.RUNTIME


class ErrorGroup(PrimusError):
    """Several independent problems, told together; the exit code is the first one's."""

    def __init__(self, errors: Sequence[PrimusError]) -> None:
        if not errors:
            raise ValueError("an ErrorGroup needs at least one error")
        super().__init__(f"{len(errors)} problems")
        self.errors = tuple(errors)
        self.exit_code = errors[0].exit_code

    @property
    def problems(self) -> tuple[PrimusError, ...]:
        return tuple(problem for error in self.errors for problem in error.problems)


def raise_all(errors: Sequence[PrimusError]) -> None:
    """Raise nothing for no error, the error itself for one, an `ErrorGroup` for more."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ErrorGroup(errors)
