"""One run at a time in an experiment's folder."""

from primus_core.lock.holder import Holder
from primus_core.lock.lock import ExperimentLock, holder_of

__all__ = ["ExperimentLock", "Holder", "holder_of"]
