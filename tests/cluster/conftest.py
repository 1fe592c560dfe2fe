"""Hosts for the tests that need several, and what starts containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.testbed import containers, images
from tests.testbed import slurm as slurm_testbed
from tests.testbed.containers import Engine
from tests.testbed.hosts import Hosts, lacking
from tests.testbed.images import Image
from tests.testbed.slurm import Slurm

MakeHosts = Callable[[int], Hosts]


@pytest.fixture
def make_hosts(tmp_path: Path) -> Iterator[MakeHosts]:
    """Starts so many hosts; they end with the test."""
    if reason := lacking():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield lambda count: stack.enter_context(Hosts(count, tmp_path))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm cluster of three nodes for the tests of one file, which leave it idle."""
    if reason := slurm_testbed.lacking():
        pytest.skip(reason)
    with Slurm(3, tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def podman() -> Iterator[Engine]:
    """Podman with a storage of its own, empty but for what tests add."""
    if reason := containers.lacking_podman():
        pytest.skip(reason)
    with containers.podman() as engine:
        yield engine


@pytest.fixture(scope="session")
def docker() -> Iterator[Engine]:
    """A docker daemon of the tests' own, empty but for what tests add."""
    if reason := containers.lacking_docker():
        pytest.skip(reason)
    with containers.docker() as engine:
        yield engine


@pytest.fixture(scope="session", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """One engine after the other."""
    found: Engine = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def plain_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image with Python and the training libraries, without Primus. `Engine.add` makes it known."""
    return images.plain(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def primus_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image that has this Primus as well."""
    return images.with_primus(tmp_path_factory.mktemp("images"))
