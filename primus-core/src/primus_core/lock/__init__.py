"""One run at a time in an experiment's folder."""

from primus_core.lock.holder import Holder
from primus_core.lock.lock import ExperimentLock

__all__ = ["ExperimentLock", "Holder"]
