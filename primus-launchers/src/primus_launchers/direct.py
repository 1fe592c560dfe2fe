"""Launcher ``direct``: the ranks of this host, of one or of several that are started one by one, by torchrun."""

from __future__ import annotations

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.nodes.place import DEFAULT_PORT
from primus_core.plan import Job, Process, Submission
from primus_launchers.programs import runner_of

CONTRACT = 1


@host
def launch(job: Job) -> Submission:
    """Start torchrun, which starts the ranks of this node and ends all of them when one fails.

    Of several nodes each is started by the user; ``node_rank`` says which one this is.

    Raises:
        ConfigError: the job has half of an address.
    """
    argv = (job.python, "-m", runner_of(job.task), *torchrun_options(job), *job.argv)
    return Submission(processes=(Process(argv=argv, env=job.env),))


def torchrun_options(job: Job) -> tuple[str, ...]:
    """torchrun's options: no restarts, and its own files inside the run directory."""
    folder = (f"--log-dir={job.log_dir}/torchrun",) if job.log_dir else ()
    return (
        f"--nproc-per-node={job.task.ranks_per_node}",
        f"--nnodes={job.nodes}",
        "--max-restarts=0",
        *folder,
        *(_rendezvous(job) if job.nodes == 1 else _meeting(job)),
    )


def _meeting(job: Job) -> tuple[str, ...]:
    """Of several nodes: where the ranks of all of them meet, and which one this is."""
    address, port, number = (_option(job.options.get(name)) for name in ("master_addr", "master_port", "node_rank"))
    if not address or not number:
        raise ConfigError(
            f"the job has {job.nodes} nodes, and `{'node_rank' if address else 'master_addr'}` is not set",
            why="each node has a number, and all meet at node 0",
            remedy="set NODE_RANK and MASTER_ADDR on every node",
        )
    return (f"--node-rank={number}", f"--master-addr={address}", f"--master-port={port or DEFAULT_PORT}")


def _rendezvous(job: Job) -> tuple[str, ...]:
    """Of one node: the address that was asked for, else a port that is free when torchrun starts."""
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
