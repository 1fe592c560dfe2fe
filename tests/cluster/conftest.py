"""Hosts for the tests that need several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.testbed import slurm as slurm_testbed
from tests.testbed.hosts import Hosts, lacking
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
