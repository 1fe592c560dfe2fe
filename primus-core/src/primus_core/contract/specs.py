"""The hooks a plugin may implement, on the host and in each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from primus_core.contract.markers import spec
from primus_core.experiment import Experiment, Module
from primus_core.outcome import Finding, PatchReport, Where
from primus_core.plan import Job, RunPlan, Submission, Target, Translation

if TYPE_CHECKING:
    from primus_core.shape import ModelShape  # its many classes are dear, and a dry run asks for no shape


class Store(Protocol):
    """What ranks agree through, as torch's stores have it."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys are there; returns at once."""

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Set a key that is not there (``expected`` is empty); the value that it has then, whoever set it."""


class RankContext(Protocol):
    """What core gives the code that runs in a rank."""

    rank: int
    local_rank: int
    world_size: int
    env: Mapping[str, str]
    """The rank's environment, read once by core."""

    def phase(self, name: str) -> None:
        """Say what the rank does now; it is in the report when the rank dies."""

    def metrics(self, row: Mapping[str, object]) -> None:
        """Write one row of ``metrics.jsonl`` (names and units: `primus_core.log.metrics`) and tell the console."""

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Tell the console how far a long preparation has come."""

    def log(self, level: str, event: str, **values: object) -> None:
        """Write one record; level is ``debug``, ``info``, ``warning`` or ``error``. The console shows the last two."""

    def notice(self, topic: str, text: str) -> None:
        """Write an info record that rank 0 also shows on the console, under a topic of one word: ``data``."""

    def should_stop(self, iteration: int, store: Store) -> bool:
        """Whether to save and end now, although iterations are left: a signal asks for it.

        To be asked in every rank after each iteration but the last; all ranks get the same answer for the same
        iteration. One request to the store, no collective.

        Args:
            store: that of the process group: ``torch.distributed.distributed_c10d._get_default_store()``.
        """

    def prepared(self, name: str) -> Mapping[str, object]:
        """The result of a finished `RunPlan.prepare` task, by its kind."""


class HostSpec:
    """Hooks called in the process of ``primus run``. Implementations must not import the back end's library."""

    @spec(firstresult=True)
    def translate_config(self, experiment: Experiment, module: Module, target: Target) -> Translation | None:
        """Translate one module into the library's own parameters, entry, layout and patches.

        Raise `primus_core.errors.ConfigError` (all problems together with `raise_all`) for a key that is
        unknown, a value of the wrong type, or a request that the library cannot honour.
        """

    @spec(firstresult=True)
    def model_shape(self, plan: RunPlan) -> ModelShape | None:
        """Tell of the plan's model what `primus projection` computes parameters, memory and FLOPs from.

        Raise `primus_core.errors.ConfigError` for a model whose tensors are not known.
        """

    @spec(firstresult=True)
    def launch(self, job: Job) -> Submission | None:
        """Return what to start for a job. Start nothing, read nothing, write nothing."""

    @spec
    def preflight_check(self, plan: RunPlan, where: Where, env: Mapping[str, str]) -> Sequence[Finding]:
        """Report what is wrong or doubtful about a plan before anything is started.

        Args:
            env: the environment of the ranks; on a node their own, before the start as far as it is known: in a
                container and over ssh without what the image and the other host set.
        """
        raise NotImplementedError


class RankSpec:
    """Hooks called in each rank's process, before the task's entry."""

    @spec(firstresult=True)
    def patch_backend(self, plan: RunPlan, rank: RankContext) -> PatchReport | None:
        """Apply the plan's patches; `primus_core.patching.apply_patches` does it for most back ends."""

    @spec
    def preflight_check(self, plan: RunPlan, where: Where, env: Mapping[str, str]) -> Sequence[Finding]:
        """Report what only the node can see.

        Args:
            env: the rank's own environment.
        """
        raise NotImplementedError
