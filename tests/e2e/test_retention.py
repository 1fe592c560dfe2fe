"""Which checkpoints are kept, as the command line tells it before anything starts."""

from __future__ import annotations

import pytest

from tests.e2e.support import EXAMPLE, Primus


@pytest.mark.parametrize(
    ("framework", "theirs"), [("megatron", "save_retain_interval"), ("torchtitan", "checkpoint.keep_latest_k")]
)
def test_two_rules_of_retention_are_refused(primus: Primus, framework: str, theirs: str) -> None:
    """Core's rule and the library's own at once: both are named with their lines, and one to remove."""
    asked = ("keep_last_checkpoints=2", f"{theirs}=4")
    done = primus("config", "validate", EXAMPLE, "--framework", framework, "--nproc", "2", *asked)
    assert done.returncode == 2
    told = done.stdout + done.stderr
    for fragment in (f"keep_last_checkpoints and {theirs} both", "command line", f"remove {theirs}"):
        assert fragment in told
    assert primus("config", "validate", EXAMPLE, "--framework", framework, "--nproc", "2", asked[0]).returncode == 0


def test_a_number_to_keep_is_one_or_more(primus: Primus) -> None:
    """A run that keeps no checkpoint could not go on from any."""
    done = primus("config", "validate", EXAMPLE, "keep_last_checkpoints=0")
    assert done.returncode == 2
    assert "`keep_last_checkpoints` is 0" in done.stdout + done.stderr
