"""Launcher ``ssh``: ranks on hosts that the user reaches by ssh, without a scheduler.

``primus run`` starts one program on its own host (`primus_launchers.ssh.together`), which runs the user's ssh once for
each host. There `primus_launchers.ssh.remote` reads from its standard input what to do, and starts torchrun.
"""

from __future__ import annotations

import re

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.plan import Job, Process, Submission

CONTRACT = 1
TOGETHER = "primus_launchers.ssh.together"
_UNFIT = re.compile(r"['!\\\x00-\x1f]")
"""What no quotes protect in every login shell."""


@host
def launch(job: Job) -> Submission:
    """Start one process, which starts the ranks on every host and ends all of them when one host fails.

    Raises:
        ConfigError: no hosts are named, or another number than the job has nodes; the interpreter has an unfit path.
    """
    hosts = _hosts(job)
    python = str(job.options.get("python") or job.python)
    if _UNFIT.search(python):
        raise ConfigError(
            f"the interpreter {python!r} cannot be started by ssh",
            where="ssh.python",
            why="its path goes through the login shell of each host; quotes, ! and \\ mean other things in some shells",
            remedy="set ssh.python to a path without them, such as a link",
        )
    argv = (job.python, "-m", TOGETHER, "--hosts", ",".join(hosts), "--python", python, *_options(job), "--", *job.argv)
    return Submission(processes=(Process(argv=argv, env=job.env),))


def _hosts(job: Job) -> tuple[str, ...]:
    named = job.options.get("hosts")
    hosts = tuple(map(str, named)) if isinstance(named, list) else ()
    if not hosts or len(hosts) != job.nodes:
        raise ConfigError(
            f"the launcher 'ssh' has {len(hosts)} hosts, and the job has {job.nodes} node{'s' * (job.nodes != 1)}",
            why="it starts one node on each host",
            remedy="name the hosts: --hosts node1,node2, --hostfile FILE, or `ssh: {hosts: [node1, node2]}`",
        )
    return hosts


def _options(job: Job) -> tuple[str, ...]:
    """What is the same on every host."""
    given = {
        "--nproc": job.task.ranks_per_node,
        "--runner": job.task.runner,
        "--workdir": job.workdir,
        "--submission": job.log_dir,
        "--ssh-config": job.options.get("config"),
        "--connect-seconds": job.options.get("connect_seconds"),
        "--lost-seconds": job.options.get("lost_seconds"),
        "--master-addr": job.options.get("master_addr"),
        "--master-port": job.options.get("master_port"),
    }
    return tuple(f"{name}={value}" for name, value in given.items() if value not in (None, ""))
