"""Whether the nodes of a run share their files."""

from __future__ import annotations

from collections.abc import Mapping

APART = "PRIMUS_NODE_APART"
"""Tells the ranks of a node that it has a run directory and caches of its own, which no other node sees."""


def is_apart(env: Mapping[str, str]) -> bool:
    """Whether the node of a rank with this environment keeps its files apart from those of rank 0."""
    return env.get(APART) == "1"
