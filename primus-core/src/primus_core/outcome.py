"""What was found and what happened: findings, patch ledgers and the reports of ranks and runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal

from attrs import field

from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError
from primus_core.records import frozen

Severity = Literal["error", "warning", "info"]
Cause = Literal["configuration", "dependency", "unsupported", "runtime"]
"""Why something is not as it should be: the experiment or the command line is wrong; something is missing or of the
wrong version where it is needed; no installation of the back end builds or trains what is asked for; or a run failed.
"""

_ERRORS: dict[str, type[PrimusError]] = {
    "configuration": ConfigError,
    "dependency": DependencyError,
    "unsupported": DependencyError,
    "runtime": RunError,
}


class Where(Enum):
    """Where a preflight check runs."""

    SUBMIT = "submit"
    """In the process of ``primus run``, before anything is started."""
    NODE = "node"
    """In each rank's process, before the library is imported."""
    FILES = "files"
    """On the submitting host, for what has to open data and checkpoint files."""


@frozen(kw_only=True)
class Finding:
    """One thing a preflight check has to say."""

    check: str
    severity: Severity
    summary: str
    evidence: str = ""
    """What was seen: values, origins, figures with units."""
    remedy: str = ""
    cause: Cause = "configuration"
    """Decides the exit code of an error: 2 for ``configuration``, 3 for ``runtime``, else 1."""
    where: str = ""
    """``file:line`` of the setting concerned; empty where there is none."""

    @property
    def exit_code(self) -> ExitCode:
        return _ERRORS[self.cause].exit_code

    def as_error(self) -> PrimusError:
        """The error that ends a command or a rank because of this finding."""
        return _ERRORS[self.cause](self.summary, where=self.where, why=self.evidence, remedy=self.remedy)


PatchState = Literal["applied", "skipped", "drift-allowed"]


@frozen(kw_only=True)
class PatchResult:
    """What became of one planned patch in one rank."""

    id: str
    target: str
    reason: str
    state: PatchState
    detail: str = ""


@frozen(kw_only=True)
class PatchReport:
    """The ledger of a rank: one result for each planned patch, in the order of application."""

    results: tuple[PatchResult, ...] = ()


@frozen(kw_only=True)
class Problem:
    """A failure that Primus itself explains; the fields of a `primus_core.errors.PrimusError`."""

    what: str
    where: str = ""
    why: str = ""
    remedy: str = ""


@frozen(kw_only=True)
class Raised:
    """An exception from which another one came."""

    type: str
    text: str
    at: str = ""
    """``file:line in function`` of where it was raised; empty where that is not known."""


@frozen(kw_only=True)
class Failure:
    """The exception that ended a rank."""

    type: str
    text: str
    traceback: str = ""
    problems: tuple[Problem, ...] = ()
    """Empty for an exception that is not Primus' own."""
    at: str = ""
    """``file:line in function`` of where it was raised; empty where that is not known."""
    chain: tuple[Raised, ...] = ()
    """The exceptions from which it came, the nearest first."""


@frozen(kw_only=True)
class Diagnosis:
    """Why a run failed, in plain words; where the cause is one that is known."""

    kind: str
    """What programs may ask for: ``memory``, ``nan``, ``data``, ``collective``, ``disk``, ``library`` ..."""
    what: str
    why: str = ""
    """What was seen that says so."""
    remedy: str = ""


@frozen(kw_only=True)
class Standing:
    """Where a rank stood while the run hung."""

    rank: int
    host: str = ""
    place: str = ""
    """``file:line in function``; of a rank that gave no answer what is known of its end."""
    iteration: int | None = None


@frozen(kw_only=True)
class Stall:
    """A run that hung."""

    seconds: float
    """Without progress, when it was found."""
    collective: str = ""
    """What is waited for; empty where the flight recorder does not tell."""
    missing: tuple[Standing, ...] = ()
    """The ranks that the others wait for; empty where all wait."""
    waiting: tuple[int, ...] = ()


@frozen(kw_only=True)
class Straggler:
    """A rank that was slower than the others; its own time is an iteration's without what it waited for others."""

    rank: int
    host: str
    iteration: int
    """When it was found."""
    own_seconds: float
    others_seconds: float
    """Median of the other ranks' own times."""
    fleet_score: float
    """Its own time over theirs."""
    own_score: float
    """Its own time over the best that it had."""


@frozen(kw_only=True)
class RankReport:
    """What one rank left behind; written by its parent process, also when the rank was killed."""

    run_id: str
    rank: int
    host: str
    phase: str
    """``start``, ``data``, ``import``, ``patch``, ``train``, ``done`` ..."""
    iteration: int | None = None
    exit_code: int = 0
    """As a shell would report it: 128 + signal for a killed rank."""
    signal: str | None = None
    signalled_first: bool = False
    """The rank was told to end before it ended: it failed in consequence."""
    stopped: str | None = None
    """The signal for which it ended in good order, with exit code 0, before its work was done."""
    failure: Failure | None = None
    started: float = 0.0
    """Seconds since the epoch."""
    ended: float = 0.0
    peak_memory_bytes: int = 0
    """Largest resident set of the rank's process."""
    peak_device_memory_bytes: int | None = None
    """Largest allocation on the accelerator that the rank reported; None on a CPU and before the first iteration."""
    memory_limit_bytes: int | None = None
    """What the rank's cgroup may use; None where it has no limit."""
    out_of_memory: bool | None = None
    """Whether the kernel ended a process of the rank's cgroup while the rank lived, because memory had run out; None
    where it does not say."""
    versions: Mapping[str, str] = field(factory=dict)
    """Of Python and of what the rank runs, by name; Python's alone for a rank that ended before it looked."""
    last_lines: tuple[str, ...] = ()
    patches: PatchReport = field(factory=PatchReport)
    result: Mapping[str, object] = field(factory=dict)
    """What the task's entry returned: final loss, iteration, checkpoint."""
    stall: Stall | None = None
    """The hang that this rank saw the run in; every rank that lived has the same one."""
    stragglers: tuple[Straggler, ...] = ()
    """Those that rank 0 found."""


@frozen(kw_only=True)
class RunReport:
    """All ranks of one run, merged."""

    run_id: str
    exit_code: int
    started: float
    ended: float
    ranks: tuple[RankReport, ...] = ()
    first_failure: int | None = None
    """The rank that failed first; None when none failed. One that vanished has no report in ``ranks``."""
    diagnosis: Diagnosis | None = None
    """Why it failed; None where the rank explains that itself, or nothing is known of it."""
    launcher_problems: tuple[Problem, ...] = ()
    """What the launcher itself says of the end: a host that it could not start, or that was lost."""
    launcher_signal: str | None = None
    """The signal that killed the launcher, which nobody had asked to end."""
    stopped: str | None = None
    """The signal for which the run saved and ended before its last iteration; it asks to be started again."""
    attempt: int = 1
    """Which start of the run this is: one more than the restarts in place before it."""
    result: Mapping[str, object] = field(factory=dict)
    stall: Stall | None = None
    """The hang that was found."""
    stragglers: tuple[Straggler, ...] = ()
