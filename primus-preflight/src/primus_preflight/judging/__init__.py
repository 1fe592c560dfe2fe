"""What the nodes have seen becomes faults and verdicts."""

from primus_preflight.judging.limits import Limits
from primus_preflight.judging.report import Comparison, Fault, Judged, Report, Verdict
from primus_preflight.judging.verdicts import judge

__all__ = ["Comparison", "Fault", "Judged", "Limits", "Report", "Verdict", "judge"]
