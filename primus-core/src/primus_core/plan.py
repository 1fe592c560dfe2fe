"""What will be done: the plan that crosses from the host process to every rank, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field

from primus_core.experiment import Experiment, Value
from primus_core.records import frozen

PLAN_SCHEMA = 1
"""Version of the layout of ``plan.json``."""

Accelerator = Literal["cpu", "cuda", "rocm"]
ON_THIS_HOST = ("direct", "single", "container")
"""Launchers that start the ranks on the host that the command is given on, and nowhere else."""
TaskKind = Literal["train", "preflight", "benchmark", "data", "checkpoint", "script"]


Preflight = Literal["on", "strict", "off"]
"""What checks of preflight plugins may do: warn and end a run, end it for a warning too, nothing."""


@frozen(kw_only=True)
class Target:
    """What the plan is made for; each rank compares it with what it finds."""

    accelerator: Accelerator
    library_version: str
    """Version of the back end's library that the translation is made for."""
    ranks_per_node: int
    nodes: int = 1

    @property
    def world_size(self) -> int:
        return self.ranks_per_node * self.nodes


@frozen(kw_only=True)
class Mapped:
    """One experiment parameter that reaches the library as it was asked."""

    path: str
    native: str
    value: Value


@frozen(kw_only=True)
class Adjusted:
    """One parameter that reaches the library with another value than was asked, or that the back end set."""

    path: str
    native: str
    asked: Value
    """The user's or preset's value; None where nobody set it."""
    used: Value
    why: str


@frozen(kw_only=True)
class Unused:
    """One parameter that does not reach the library, and why that changes nothing that was asked for."""

    path: str
    why: str
    severity: Literal["info", "warning"] = "info"
    """``warning`` for what the user should hear of; core tells all of them as one finding."""
    overridden_by: str = ""
    """The other spelling of the same parameter, set by a stronger layer; empty where that is not why."""


@frozen(kw_only=True)
class Layout:
    """How ranks and samples are divided; what core checks against the world size.

    Sizes are numbers of ranks; batch sizes are samples per optimizer step.
    """

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    micro_batch_size: int = 1
    global_batch_size: int | None = None
    """None: micro batch x data parallel, no accumulation."""
    expert_tensor: int = 1
    """Ranks that divide the tensors of one expert."""
    data: int = 1
    """Data parallel ranks come in whole groups of so many: copies of the model, or of its shards."""
    names: Mapping[str, str] = field(factory=dict)
    """By field, the user's own spelling of a size that has not its portable name, such as the library's path."""

    @property
    def ranks_per_replica(self) -> int:
        """Ranks that together hold one copy of the model and see the same samples."""
        return self.tensor * self.pipeline * self.context

    def data_parallel(self, world_size: int) -> int:
        return world_size // self.ranks_per_replica


@frozen(kw_only=True)
class ModelSizes:
    """The model in a few numbers, for checks and messages; `primus_core.shape.ModelShape` has all of it.

    Lengths are numbers of features or tokens; counts are whole-model figures.
    """

    layers: int
    hidden: int
    ffn_hidden: int
    heads: int
    query_groups: int
    head_size: int
    sequence: int
    vocabulary: int
    """Rows of the embedding, padding included."""
    gated_mlp: bool
    tied_embeddings: bool
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn_hidden: int = 0


@frozen(kw_only=True)
class PatchSpec:
    """One planned change of the library's code in every rank.

    Attributes:
        id: unique, ``kebab-case``; what reports and ``--allow-patch-drift`` name.
        target: ``module:qualified.name`` of the attribute that is replaced.
        replacement: ``module:qualified.name`` of a factory in the rank's code that is called with the
            original attribute and returns the new one.
        requires: version range of the patched distribution, e.g. ``torch>=2.13,<2.14``; empty: any.
        reason: one sentence, what goes wrong without it.
        fingerprint: known hashes of the target's source (builtins: of name, docstring and version).
            Empty: the target does not exist in the library and is created.
        after: ids that must be applied earlier.
        when: accelerators it is needed on; empty: every one.
        python: versions of the rank's interpreter that need it, e.g. ``<3.12``; empty: every one.
        condition: what of the experiment made the back end plan it, e.g. ``num_experts is set``; empty: nothing.
    """

    id: str
    target: str
    replacement: str
    reason: str
    requires: str = ""
    fingerprint: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    when: tuple[Accelerator, ...] = ()
    python: str = ""
    condition: str = ""


@frozen(kw_only=True)
class Translation:
    """An experiment module in the words of one library.

    Core checks that every parameter that the user or a preset set is in ``mapping``, ``adjusted`` or ``unused``.
    """

    native: Mapping[str, Value]
    """All values to set in the library, by its own names."""
    entry: str
    """``module:function`` that trains, called in each rank with the plan and the rank context."""
    layout: Layout
    mapping: tuple[Mapped, ...] = ()
    adjusted: tuple[Adjusted, ...] = ()
    unused: tuple[Unused, ...] = ()
    patches: tuple[PatchSpec, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)
    """Variables that the library needs in every rank; what the user or the shell sets is kept."""
    model: ModelSizes | None = None


@frozen(kw_only=True)
class Task:
    """Something that runs in ranks. Launchers do not know which kind it is."""

    kind: TaskKind
    entry: str
    """``module:function``, called with the plan and the rank context."""
    arguments: Mapping[str, Value] = field(factory=dict)
    runner: Literal["torchrun", "plain"] = "torchrun"
    """``plain``: one process on each node, which waits for no other and does not end with one."""
    ranks_per_node: int = 1


@frozen(kw_only=True)
class Mount:
    """A file or folder of the submitting host that the run needs; a container has it under the same path."""

    path: str
    """Absolute."""
    writable: bool = False


@frozen(kw_only=True)
class Job:
    """What a launcher starts: the same command on each rank of each node."""

    run_id: str
    name: str
    task: Task
    python: str
    """Absolute path of the interpreter of the ranks."""
    argv: tuple[str, ...]
    """Arguments of the interpreter for one rank: ``-m primus_core.rank PLAN``."""
    env: Mapping[str, str] = field(factory=dict)
    """Variables to set for the ranks. Secrets are not here: they are inherited."""
    nodes: int = 1
    workdir: str = ""
    log_dir: str = ""
    options: Mapping[str, Value] = field(factory=dict)
    """The launcher's section of the experiment, and ``master_addr``/``master_port`` where the environment set them."""
    sections: Mapping[str, Mapping[str, Value]] = field(factory=dict)
    """The sections of all launchers, for one that starts another inside: a scheduler, a container."""
    inside: str = "direct"
    """What starts the ranks on each node where the launcher only reaches the nodes: ``direct`` or ``container``."""
    accelerator: Accelerator = "cpu"
    run_dir: str = ""
    secrets: tuple[str, ...] = ()
    """Names of variables that the ranks inherit, and whose values are in no argument and no file."""
    mounts: tuple[Mount, ...] = ()
    """What of this host's files the run reads and writes."""
    allocated: bool = False
    """A scheduler has given the nodes, and this host is one of them: the launcher asks for none."""


@frozen(kw_only=True)
class Process:
    """One process that core starts for a submission."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(factory=dict)
    """Added to the inherited environment."""
    host: str = ""
    """Empty: this host."""
    stdin: str = ""


@frozen(kw_only=True)
class Submission:
    """What a launcher asks core to start. Pure data: a dry run prints it."""

    processes: tuple[Process, ...]
    files: Mapping[str, str] = field(factory=dict)
    """Files to write under the run's ``submission/`` folder, by relative name."""
    detached: bool = False
    """The process hands the run to a scheduler and ends before it."""
    handle_pattern: str = ""
    """Regular expression whose first group is the scheduler's name for the run, in what the process prints."""
    status_argv: tuple[str, ...] = ()
    """Command that tells how a detached run stands; ``{handle}`` in a word stands for the scheduler's name for it.

    It prints one line of JSON: ``state`` (``pending``, ``running``, ``completed``, ``failed``, ``cancelled``, or
    ``unknown`` for one that the scheduler has forgotten), ``text``, the scheduler's own words, and ``restarts``, how
    often it started the run again.
    """
    cancel_argv: tuple[str, ...] = ()
    """Command that ends a detached run; ``{handle}`` as in ``status_argv``."""
    requeue_argv: tuple[str, ...] = ()
    """Command by which a run that was stopped has the scheduler start it again; ``{handle}`` as in ``status_argv``."""
    carries_code: bool = False
    """The ranks run where Primus is not installed: core puts a copy of it into ``submission/code``."""


@frozen(kw_only=True)
class Settings:
    """Core's own parameters of a module, typed."""

    values: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.values[name]


@frozen(kw_only=True)
class RunPlan:
    """Everything a rank has to know. The only thing that crosses the process boundary."""

    run_id: str
    run_dir: str
    """Absolute; ``{experiment folder}/runs/{run_id}``."""
    target: Target
    task: Task
    prepare: tuple[Task, ...] = ()
    """Tasks that rank 0 runs before the others start the main task; each is complete or absent."""
    framework: str | None = None
    module: str | None = None
    experiment: Experiment | None = None
    settings: Settings = field(factory=lambda: Settings(values={}))
    translation: Translation | None = None
    job: Job
    launcher: str
    distributions: Mapping[str, str] = field(factory=dict)
    """Versions of the Primus distributions that made the plan."""
    allowed_drift: tuple[str, ...] = ()
    """Patch ids whose target may differ from every known fingerprint."""
    secrets: tuple[str, ...] = ()
    """Names of environment variables whose values every output must redact."""
    preflight: Preflight = "on"
    contract: int = 1
    schema: int = PLAN_SCHEMA
