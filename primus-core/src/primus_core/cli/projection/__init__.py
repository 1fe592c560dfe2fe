"""``primus projection memory --config exp.yaml``: will it fit, on which rank not, what to change. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from primus_core.cli.modes import Mode


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Print the projection of one experiment; returns the exit code."""
    from primus_core.cli.projection.command import project  # here: `primus run` needs one line of it alone

    return project(argv, env, mode)
