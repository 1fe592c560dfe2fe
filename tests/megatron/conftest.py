"""The ranks that the tests of training share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.megatron.ranks import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """Forks real ranks on the CPU; importing torch and Megatron is paid once."""
    with Ranks() as started:
        yield started
