"""A node's place among those of its job, and where all of them meet."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from attrs import frozen

from primus_core.errors import PrimusError, RunError
from primus_launchers.slurm.nodelist import expand
from primus_launchers.ssh import meeting

_FIRST_PORT, _PORTS = 20000, 10000
"""Below those that Linux gives to outgoing connections."""
_TRIES = 100


@frozen(kw_only=True)
class Place:
    """What Slurm says of this node."""

    number: int
    host: str
    hosts: str
    """All nodes, in Slurm's short form."""
    first: str
    job: str
    step: str

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Place:
        """From the variables of a task.

        Raises:
            RunError: this is no task of Slurm.
        """
        hosts = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
        if not hosts or not env.get("SLURM_NODEID", "").isdecimal():
            raise RunError("this is no task of a Slurm job", why="SLURM_NODEID is not set", remedy="start it by srun")
        return cls(
            number=int(env["SLURM_NODEID"]),
            host=env.get("SLURMD_NODENAME") or socket.gethostname(),
            hosts=hosts,
            first=expand(hosts)[0],
            job=env.get("SLURM_JOB_ID", ""),
            step=env.get("SLURM_STEP_ID", ""),
        )

    def listen(self, port: int) -> socket.socket:
        """Keep the port where the ranks will meet: on this node it is free.

        Args:
            port: one that was asked for; 0: one that follows from the job's number.

        Raises:
            RunError: somebody else has it.
        """
        if port:
            return meeting.listen(self.host, port)
        begin = (int(self.job) if self.job.isdecimal() else os.getpid()) * 11
        step = int(self.step) if self.step.isdecimal() else 0
        wanted = (_FIRST_PORT + (begin + step + number) % _PORTS for number in range(_TRIES))
        for candidate in wanted:
            try:
                return meeting.listen(self.host, candidate)
            except PrimusError:
                continue
        return meeting.listen(self.host, 0)

    def address(self, env: Mapping[str, str]) -> str:
        """The first node's name; its address in the network of the job where no such name is known."""
        try:
            socket.getaddrinfo(self.first, None)
        except OSError:
            return _address_towards(env.get("SLURM_LAUNCH_NODE_IPADDR", "")) or socket.gethostname()
        return self.first


def _address_towards(other: str) -> str:
    """This host's address as that host sees it; nothing is sent."""
    if not other:
        return ""
    family = socket.AF_INET6 if ":" in other else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
