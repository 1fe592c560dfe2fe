"""What a preflight has come to: faults, one verdict for each node and one for all."""

from __future__ import annotations

from typing import Literal

from primus_core.errors import ExitCode
from primus_core.records import frozen
from primus_preflight.judging.limits import Limits
from primus_preflight.model import Gathered, Unit

REPORT_SCHEMA = 1
"""Version of the layout of report.json."""

Verdict = Literal["pass", "warning", "error", "failure", "missing"]
"""``error``: a look or a test could not be done, so that nothing says that the node is good. ``missing``: it did not
answer."""
RANKING: tuple[Verdict, ...] = ("pass", "warning", "error", "failure", "missing")
"""From good to bad."""
FAULTY: tuple[Verdict, ...] = ("error", "failure", "missing")
"""A node with one of these should not take part in a run."""


@frozen(kw_only=True)
class Fault:
    """One thing that is wrong, wherever it is."""

    kind: str
    """What programs may ask for: ``missing``, ``probe``, ``finding``, ``slow``, ``link``, ``wrong`` ..."""
    level: Verdict
    what: str
    """The same words for the same thing on every node."""
    nodes: tuple[int, ...] = ()
    """Those that have it, in the order of their ranks; of a link both ends, the sender first. Empty: nothing tells
    which."""
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    """Figures, each with what it is compared to."""

    @property
    def blames_nodes(self) -> bool:
        """Whether its nodes are as bad as it is; the ends of a link are doubtful only."""
        return self.kind != "link"


@frozen(kw_only=True)
class Judged:
    """One node."""

    node: int
    host: str
    """Empty where it did not answer and the launcher does not know it."""
    verdict: Verdict
    faults: tuple[str, ...] = ()
    """What it has, the worst first."""


@frozen(kw_only=True)
class Comparison:
    """One test of one size: what its peers have in common."""

    test: str
    size_bytes: int
    dtype: str
    unit: Unit
    members: int
    """Nodes of each group."""
    measured: int
    best: float
    """What the others are compared to."""
    median: float
    worst: float
    worst_nodes: tuple[int, ...]
    specified: float | None = None
    """Rate of the hardware's specification; None where it does not tell."""


@frozen(kw_only=True)
class Report:
    """All that is known and what it means. What was gathered is in canonical order."""

    run_id: str
    verdict: Verdict
    nodes: tuple[Judged, ...]
    faults: tuple[Fault, ...]
    """The worst first."""
    comparisons: tuple[Comparison, ...]
    limits: Limits
    gathered: Gathered
    schema: int = REPORT_SCHEMA

    @property
    def exit_code(self) -> ExitCode:
        """3: there are failures. 1: something could not be tested."""
        if self.verdict == "failure":
            return ExitCode.RUNTIME
        return ExitCode.DEPENDENCY if self.verdict == "error" else ExitCode.OK


def worst(verdicts: tuple[Verdict, ...]) -> Verdict:
    """The worst of some; a pass where there is none."""
    return max(verdicts, key=RANKING.index, default="pass")
