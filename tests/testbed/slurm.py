"""A Slurm cluster on hosts of the testbed: a controller on a host of its own, where users log in, and nodes.

It has what clusters have (munge, a scheduler that packs by core, binding of tasks to cores, two partitions of which one
preempts the other) and no accounting. Nothing of the machine's own Slurm is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.testbed import hosts as testbed
from tests.testbed.hosts import Hosts

LOGIN = "login"
"""The host with the controller, where jobs are submitted."""
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "scancel")
_SECONDS = 60.0
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_CONFIG = """\
ClusterName=test
SlurmctldHost={login}
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,preempt_send_user_signal
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=60
MessageTimeout=30
TCPTimeout=10
KillWait=30
MinJobAge=300
GresTypes=gpu
NodeName=node[1-{count}] CPUs=2 RealMemory=8000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 GraceTime=120 State=UP
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
"""


def lacking() -> str:
    """Why there can be no cluster here; empty where there can."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    return testbed.lacking() or (f"not installed: {', '.join(missing)}" if missing else "")


class Slurm:
    """``node1`` to ``nodeN`` with two CPUs and two devices `gpu` each, and `LOGIN`; a context manager.

    Args:
        folder: for its files. Unix sockets are among them: its path must be short.
        settings: further lines of ``slurm.conf``; they are stronger than those that each cluster has.
    """

    def __init__(self, count: int, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._settings = dict(settings or {})
        self.hosts = Hosts(count, folder, more=(LOGIN,))
        self.nodes = self.hosts.names[:-1]
        self.config = folder / "slurm.conf"
        self.env: Mapping[str, str] = {"SLURM_CONF": str(self.config), "PATH": _PATH}
        """What programs that ask Slurm have to have in their environment."""

    def __enter__(self) -> Slurm:
        self._write_files()
        with_hosts = self.hosts.__enter__()
        try:
            self._daemon(LOGIN, "munged", "--force", *self._munge())
            self._daemon(LOGIN, "slurmctld", "-c")
            for name in self.nodes:
                self._daemon(name, "slurmd", "-N", name)
            self.wait_idle()
        except BaseException:
            with_hosts.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hosts.close()

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        host: str = LOGIN,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program, where users log in unless another host is named; `hosts.signal` reaches it.

        Args:
            env: default: this process's own environment.
        """
        return self.hosts.start(host, argv, env={**(os.environ if env is None else env), **self.env}, cwd=cwd)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        host: str = LOGIN,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        seconds: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        process = self.start(argv, host=host, env=env, cwd=cwd)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{argv}: not in {seconds} s\n{out}{err}\n{self.told()}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def ask(self, *argv: str | Path) -> str:
        """What one of Slurm's commands prints, without the last line's end; it must succeed."""
        done = self.run(argv, seconds=120)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def job(self, number: str) -> dict[str, str]:
        """What the controller knows of a job: ``JobState``, ``Restarts``, ``ExitCode`` ..."""
        words = self.ask("scontrol", "show", "job", "--oneliner", number).split()
        return dict(word.partition("=")[::2] for word in words)

    def state(self, number: str) -> str:
        return self.job(number)["JobState"]

    def wait_state(self, number: str, *states: str, seconds: float = _SECONDS) -> dict[str, str]:
        """Wait until a job is in one of these states; returns what is known of it then."""
        self.wait(lambda: self.state(number) in states, f"job {number}: {'|'.join(states)}", seconds)
        return self.job(number)

    def wait(self, reached: Callable[[], bool], what: str, seconds: float = _SECONDS) -> None:
        """Poll a condition; fails, with what Slurm logged, when it is not met in time."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"{what}: not in {seconds} s\n{self.told()}"
            time.sleep(0.1)

    def wait_idle(self, seconds: float = _SECONDS) -> None:
        """Wait until no job is left and every node is ready for one."""
        ready = ["idle"] * len(self.nodes)
        self.wait(lambda: self.ask("sinfo", "-hN", "-o", "%T", "-p", "main").split() == ready, "idle nodes", seconds)

    def go_on(self, number: str) -> None:
        """Start a job that was requeued now: Slurm lets two minutes pass, for its nodes to become clean."""
        self.ask("scontrol", "update", f"JobId={number}", "StartTime=now")

    def crash(self, name: str) -> None:
        """End a node with all that runs on it; the controller finds out in some seconds."""
        self.hosts.crash(name)

    def boot(self, name: str) -> None:
        """Bring back a node that crashed."""
        self.hosts.boot(name)
        self._daemon(name, "slurmd", "-N", name)

    def restore(self) -> None:
        """End all jobs and bring back what crashed."""
        for name in self.nodes:
            if not self.hosts.is_up(name):
                self.boot(name)
        self.ask("scancel", "--user=root")
        self.wait_idle()

    def forget(self) -> None:
        """Have the controller lose all its jobs, as it does by itself with those that ended some time ago."""
        number = (self.folder / "slurmctld.pid").read_text().strip()
        self.ask("kill", number)
        self.wait(lambda: not any("slurmctld" in one for one in self.hosts.processes(LOGIN)), "end of slurmctld")
        self._daemon(LOGIN, "slurmctld", "-c")
        self.wait_idle()

    def told(self) -> str:
        """The state of the jobs, and the last that each daemon logged."""
        queue = self.hosts.start(LOGIN, ["squeue", "--all"], env={**os.environ, **self.env}).communicate(timeout=30)[0]
        logs = sorted((self.folder / "log").iterdir())
        return "\n".join([queue, *(f"{log.name}:\n{log.read_text()[-1500:]}" for log in logs)])

    def _daemon(self, host: str, program: str, *words: str | Path) -> None:
        """Start a daemon, which leaves for the background when it is ready."""
        found = shutil.which(program, path=_PATH)
        assert found, program
        process = self.hosts.start(host, [found, *words], env={**os.environ, **self.env})
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == 0, f"{program}: {out}{err}\n{self.told()}"

    def _munge(self) -> list[str]:
        folder = self.folder / "munge"
        files = {"key-file": "key", "socket": "sock", "pid-file": "pid", "seed-file": "seed"}
        return [
            *(f"--{option}={folder / name}" for option, name in files.items()),
            f"--log-file={folder}/../log/munged",
        ]

    def _write_files(self) -> None:
        for name in ("state", "log", "munge", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge/key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(128))
        count = len(self.nodes)
        lines = _CONFIG.format(login=LOGIN, folder=self.folder, count=count).splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in self._settings]
        more = [f"{name}={value}" for name, value in self._settings.items()]
        self.config.write_text("\n".join([*kept, *more]) + "\n")
        for number in range(2):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(f"NodeName=node[1-{count}] Name=gpu File={self.folder}/gpu[0-1]\n")


def primus(*words: str | Path) -> list[str]:
    """The command ``primus`` of this interpreter."""
    return [sys.executable, "-m", "primus_core.cli.main", *map(str, words)]
