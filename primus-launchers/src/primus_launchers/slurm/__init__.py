"""Launcher ``slurm``: ranks on the nodes of a Slurm job, by ``srun`` now or by a job script later.

On each node of the job runs one program (`primus_launchers.slurm.node`), which starts torchrun, or a container with
torchrun in it. Beside ``srun`` runs another one (`primus_launchers.slurm.step`), which speaks to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Job, Process, RunPlan, Submission
from primus_core.planning.slurmflags import step_words, to_words
from primus_launchers.programs import runner_of
from primus_launchers.slurm import checks
from primus_launchers.slurm.batch import batch_submission, with_commands

CONTRACT = 1
STEP = "primus_launchers.slurm.step"
NODE = "primus_launchers.slurm.node"
SECTION = "slurm"
_TASKS = ("ntasks", "ntasks-per-node")
_QUIET: Mapping[str, Value] = {"export": "ALL", "cpu-bind": "none", "mpi": "none"}
"""What the step has unless the user says otherwise: ranks inherit the environment, their one parent may use all CPUs of
the job, and nothing of MPI is prepared for it."""


@host
def launch(job: Job) -> Submission:
    """Start ``srun``, or submit a script that will; inside of a job that Slurm has given: its step alone.

    Raises:
        ConfigError: flags that go against one task on each node; what a container lacks.
    """
    inner = _inner(job)
    step = Submission(processes=(_process(job, inner),), carries_code=inner.carries_code)
    if job.allocated:
        return with_commands(step, job)
    if job.options.get("mode") == "sbatch":
        flags = to_words({**_flags(job), "nodes": job.nodes}, "sbatch")
        return evolve(batch_submission(job, flags), carries_code=inner.carries_code)
    return step


@host
def preflight_check(plan: RunPlan, where: Where) -> Sequence[Finding]:
    """Whether this host can submit."""
    if plan.launcher != SECTION or where is not Where.SUBMIT:
        return ()
    batch = plan.job.options.get("mode") == "sbatch"
    needed = {"sbatch": "submits the job script"} if batch else {"srun": "starts the ranks on the nodes"}
    return tuple(checks.programs(needed))


@frozen(kw_only=True)
class _Inner:
    """What starts the ranks of one node."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Variables that it has to find beside the inherited ones."""
    carries_code: bool = False


def _inner(job: Job) -> _Inner:
    """torchrun, in a container or not; it takes its number and the meeting point from ``PET_*`` variables."""
    folder = (f"--log-dir={job.log_dir}/torchrun",) if job.log_dir else ()
    torchrun = (f"--nproc-per-node={job.task.ranks_per_node}", f"--nnodes={job.nodes}", "--max-restarts=0", *folder)
    if job.inside == "container":
        from primus_launchers import container  # here: a run without one has no need of it

        env = container.wrapper_env(job)
        return _Inner(argv=container.wrapper_argv(job, torchrun), env=env, carries_code=container.carries_code(job))
    return _Inner(argv=(job.python, "-m", runner_of(job.task), *torchrun, *job.argv), env=job.env)


def _process(job: Job, inner: _Inner) -> Process:
    srun = ("srun", *_srun_words(job), job.python, "-m", NODE, *_node_options(job), "--", *inner.argv)
    return Process(argv=(job.python, "-m", STEP, *_step_options(job, inner), "--", *srun), env=inner.env)


def _srun_words(job: Job) -> tuple[str, ...]:
    """Those of the user, and ours: one task on each node, all end together."""
    flags = _flags(job)
    if job.allocated or job.options.get("mode") == "sbatch":
        given = step_words(flags)
    else:
        _refuse_tasks(job, flags)
        given = to_words({key: value for key, value in flags.items() if key not in ("nodes", *_TASKS)}, "srun")
    name = re.sub(r"\s+", "-", job.name) or "primus"
    quiet = {
        **_QUIET,
        **({} if job.allocated else {"job-name": name}),
        **({"chdir": job.workdir} if job.workdir else {}),
    }
    open_ones = {key: value for key, value in quiet.items() if not _is_set(given, key)}
    tasks = (f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1")
    ending = () if _is_set(given, "kill-on-bad-exit") else (f"--kill-on-bad-exit={0 if _apart(job) else 1}",)
    return (*tasks, *given, *to_words(open_ones, "srun"), *ending)


def _is_set(words: Sequence[str], name: str) -> bool:
    return any(word == f"--{name}" or word.startswith(f"--{name}=") for word in words)


def _refuse_tasks(job: Job, flags: Mapping[str, Value]) -> None:
    """One task starts all ranks of its node."""
    wanted = {"ntasks": job.nodes, "ntasks-per-node": 1}
    for name, number in wanted.items():
        if name in flags and str(flags[name]) != str(number):
            raise ConfigError(
                f"--{name}={flags[name]} on {job.nodes} node{'s' * (job.nodes != 1)}",
                why="one task on each node starts all its ranks",
                remedy=f"leave --{name} out: --gpus-per-node or --nproc is the number of ranks of a node, and "
                "--cpus-per-task the number of CPUs for all of them",
            )


def _step_options(job: Job, inner: _Inner) -> tuple[str, ...]:
    named = {*inner.env, *job.secrets}
    given = {
        "--nodes": job.nodes,
        "--inherit": ",".join(sorted(named)),
        "--workdir": job.workdir,
        "--submission": job.log_dir,
        "--lost-seconds": job.options.get("lost_seconds"),
        "--master-addr": job.options.get("master_addr"),
        "--master-port": job.options.get("master_port"),
    }
    return (*_apart(job), *(f"{name}={value}" for name, value in given.items() if value not in (None, "")))


def _apart(job: Job) -> tuple[str, ...]:
    """Nothing that happens on one node ends the others."""
    return ("--apart",) if job.task.runner == "plain" else ()


def _node_options(job: Job) -> tuple[str, ...]:
    bound = ("--bound",) if "cpu-bind" in _flags(job) else ()
    return (f"--nproc={job.task.ranks_per_node}", *bound, *_apart(job))


def _flags(job: Job) -> dict[str, Value]:
    return {key: value for key, value in job.options.items() if value is not None}
