"""The launchers keep their contract."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pytest
from attrs import evolve

from primus_core.experiment import Value
from primus_core.plan import Job, Mount
from primus_core.testing import LauncherContract
from tests.testbed import containers, images, sshd
from tests.testbed import slurm as cluster


class TestSingle(LauncherContract):
    """Core's own: one rank."""

    plugin = "single"

    def refused(self, job: Job) -> Sequence[Job]:
        return (evolve(job, nodes=2), evolve(job, task=evolve(job.task, ranks_per_node=2)))


class TestDirect(LauncherContract):
    """torchrun."""

    plugin = "direct"
    ranks = 2

    def refused(self, job: Job) -> Sequence[Job]:
        return (evolve(job, nodes=2), evolve(job, options={"master_addr": "10.0.0.7"}))


@pytest.mark.cluster
@pytest.mark.skipif(bool(containers.lacking_podman()), reason=containers.lacking_podman())
class TestContainer(LauncherContract):
    """podman, with an image that has Primus."""

    plugin = "container"
    ranks = 2
    options: ClassVar[Mapping[str, Value]] = {}

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        image = images.with_primus(tmp_path_factory.mktemp("image"))
        with containers.podman() as engine, pytest.MonkeyPatch.context() as patch:
            engine.add(image)
            for name, value in engine.env.items():
                patch.setenv(name, value)
            named: Mapping[str, Value] = {"image": image.name, "volume": [image.libraries], "engine": engine.name}
            cls.options = {**named, "mount_code": False}
            yield

    def job(self) -> Job:
        return evolve(super().job(), mounts=(Mount(path=tempfile.gettempdir(), writable=True),), run_dir="/")

    def refused(self, job: Job) -> Sequence[Job]:
        return (evolve(job, nodes=2), evolve(job, options={}))


@pytest.mark.cluster
@pytest.mark.skipif(bool(cluster.lacking()), reason=cluster.lacking())
class TestSlurm(LauncherContract):
    """One node of a Slurm cluster, on whose login host `srun` is run."""

    plugin = "slurm"
    ranks = 2

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        programs = tmp_path_factory.mktemp("programs")
        with cluster.Slurm(1, tmp_path_factory.mktemp("slurm")) as slurm, pytest.MonkeyPatch.context() as patch:
            words = [*slurm.hosts.command(cluster.LOGIN), str(shutil.which("srun"))]
            (programs / "srun").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            (programs / "srun").chmod(0o755)
            for name, value in {**slurm.env, "PATH": f"{programs}:{slurm.env['PATH']}"}.items():
                patch.setenv(name, value)
            yield

    def refused(self, job: Job) -> Sequence[Job]:
        return (evolve(job, options={"ntasks-per-node": 8}), evolve(job, options={"ntasks": 2}))


@pytest.mark.cluster
@pytest.mark.skipif(bool(sshd.lacking()), reason=sshd.lacking())
class TestSsh(LauncherContract):
    """Several hosts over ssh; here this one."""

    plugin = "ssh"
    ranks = 2
    options: ClassVar[Mapping[str, Value]] = {}

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        keys = sshd.Keys(tmp_path_factory.mktemp("ssh"))
        with sshd.server_of_this_host(keys) as port:
            cls.options = {"hosts": [f"127.0.0.1:{port}"], "config": str(keys.config())}
            yield

    def refused(self, job: Job) -> Sequence[Job]:
        unfit = {**job.options, "python": "/opt/it's/python"}
        return (evolve(job, nodes=2), evolve(job, options={}), evolve(job, options=unfit))
