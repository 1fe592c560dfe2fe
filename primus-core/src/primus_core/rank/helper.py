"""A process that the rank's own code spawns: it starts without the rank's patches, so they are applied again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from primus_core import discovery, hooks
from primus_core.codec import from_json
from primus_core.patching import verify
from primus_core.plan import RunPlan

PATCHED_PLAN = "PRIMUS_PATCHED_PLAN"
"""Variable with the path of the plan, set in a rank once its patches are applied."""


class HelperContext:
    """The rank's context in a helper: it has the rank's numbers and says nothing."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.rank = int(env["RANK"])
        self.local_rank = int(env.get("LOCAL_RANK", 0))
        self.world_size = int(env["WORLD_SIZE"])
        self.env = env

    def phase(self, name: str) -> None:
        """A helper has no phase of its own."""

    def metrics(self, row: Mapping[str, object]) -> None:
        """Metrics are the rank's."""

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Progress is the rank's."""

    def log(self, level: str, event: str, **values: object) -> None:
        """The rank has recorded the same."""

    def notice(self, text: str) -> None:
        """The rank has said the same."""

    def prepared(self, name: str) -> Mapping[str, object]:
        return {}


def repatch(env: Mapping[str, str]) -> None:
    """Apply and verify the patches of the rank that spawned this process, if it had got that far.

    Raises:
        PrimusError: they cannot be applied; the helper ends and its traceback is in the rank's log.
    """
    path = env.get(PATCHED_PLAN)
    if path is None:
        return
    plan = from_json(RunPlan, Path(path).read_text(encoding="utf-8"), source=path)
    if plan.translation is not None:
        back_end = hooks.load_rank(discovery.scan(), plan.framework)
        verify(plan, back_end.patch_backend(plan, HelperContext(env)))
