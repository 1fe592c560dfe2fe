"""In a container a user's own value still counts more than what suits the GPU model."""

from __future__ import annotations

from primus_core.hardware import model_variables
from primus_launchers.container.tables import variables


def test_a_container_inherits_what_a_rank_would_set_otherwise() -> None:
    """A rank sets these variables where they are not set: the shell's own values have to reach it."""
    shell = {one.name: "mine" for one in model_variables()}
    assert variables().inherited(shell, ()) == shell
