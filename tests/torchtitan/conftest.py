"""The ranks that the tests of training share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torchtitan.ranks import Ranks


@pytest.fixture(scope="session")
def titan_ranks() -> Iterator[Ranks]:
    """Forks real ranks on the CPU; importing torch and TorchTitan is paid once."""
    with Ranks() as started:
        yield started
