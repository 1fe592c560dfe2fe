"""Hosts for the tests that need several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.testbed.hosts import Hosts, lacking

MakeHosts = Callable[[int], Hosts]


@pytest.fixture
def make_hosts(tmp_path: Path) -> Iterator[MakeHosts]:
    """Starts so many hosts; they end with the test."""
    if reason := lacking():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield lambda count: stack.enter_context(Hosts(count, tmp_path))
