"""Planned changes of a library's code: applied in each rank, verified, undoable, never silent."""

from primus_core.patching.engine import Applied, Change, apply_patches
from primus_core.patching.fingerprints import fingerprint, fingerprint_target
from primus_core.patching.verification import verify

__all__ = ["Applied", "Change", "apply_patches", "fingerprint", "fingerprint_target", "verify"]
