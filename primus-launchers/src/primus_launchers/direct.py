"""Launcher ``direct``: the ranks of this host, started by torchrun."""

from __future__ import annotations

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.plan import Job, Process, Submission

CONTRACT = 1


@host
def launch(job: Job) -> Submission:
    """Start torchrun, which starts the ranks and ends all of them when one fails.

    Raises:
        ConfigError: the job has more than one node, or half of an address.
    """
    if job.nodes > 1:
        raise ConfigError(
            f"the launcher 'direct' starts one node, and the job has {job.nodes}",
            why="This version of primus-launchers has no multi-node start yet.",
            remedy="Run on one node, or start `primus_core.rank` on each node with a scheduler of your own.",
        )
    argv = (job.python, "-m", "primus_launchers.torchrun", *_options(job), *job.argv)
    return Submission(processes=(Process(argv=argv, env=job.env),))


def _options(job: Job) -> tuple[str, ...]:
    """torchrun's options: no restarts, and its own files inside the run directory."""
    folder = (f"--log-dir={job.log_dir}/torchrun",) if job.log_dir else ()
    return (
        f"--nproc-per-node={job.task.ranks_per_node}",
        "--nnodes=1",
        "--max-restarts=0",
        *folder,
        *_rendezvous(job),
    )


def _rendezvous(job: Job) -> tuple[str, ...]:
    """Where the ranks meet: the address that was asked for, else a port that is free when torchrun starts."""
    address, port = (_option(job.options.get(name)) for name in ("master_addr", "master_port"))
    if port:
        return (f"--master-addr={address or 'localhost'}", f"--master-port={port}")
    if address and address not in ("localhost", "127.0.0.1"):
        raise ConfigError(
            f"`master_addr` is {address} and `master_port` is not set",
            why="An address without a port names no meeting point.",
            remedy="Set both, or none: then a free port of this host is taken.",
        )
    return (
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
        f"--rdzv-id={job.run_id}",
        "--local-addr=localhost",  # else the ranks look for the host's own name, which not every laptop can resolve
    )


def _option(value: Value) -> str:
    return "" if value is None else str(value)
