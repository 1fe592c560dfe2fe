"""How long a meeting may take, from the rounds that it has and their limits."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from primus_preflight.performance.options import Options
from primus_preflight.performance.schedule import group_rounds, transfer_rounds
from primus_preflight.performance.tokens import OWN_SIZE, Trial

SHARE = 0.25
"""A round in which all is well ends long before its limit: this part of it is allowed for each."""
SPARE_ROUNDS = 4
"""So many rounds may take all of their limit beside that."""
_LOOKS = 30.0
"""Seconds for clocks, and for who reaches whom."""
_SUSPECTS = 8
"""Further rounds of pairs, of nodes and links that seem slow."""


def meeting_seconds(nodes: int, tests: Sequence[Trial], options: Options) -> float:
    """Limit of a meeting, from the moment when the nodes have come."""
    if not tests:
        return _LOOKS
    rounds = sum(_rounds(test, nodes, options) for test in tests)
    return _LOOKS + options.join_seconds + options.seconds * (SHARE * rounds + SPARE_ROUNDS)


def whole_seconds(nodes: int, tests: Sequence[Trial], options: Options) -> float:
    """Limit of all that nodes do with each other: the second meeting is held where the first one loses who holds it."""
    if nodes == 1 and not tests:
        return 0.0
    once = options.join_seconds + meeting_seconds(nodes, tests, options)
    return once if nodes == 1 else 2 * once


def limited(options: Options, nodes: int, tests: Sequence[Trial], timeout: float | None) -> Options:
    """Options with the limit of the meeting.

    Args:
        timeout: seconds that the user gives the nodes in all, of which the meeting has its part.
    """
    seconds = meeting_seconds(nodes, tests, options)
    if timeout is None:
        return evolve(options, meeting_seconds=seconds)
    join = min(options.join_seconds, timeout / 3)
    return evolve(options, join_seconds=join, meeting_seconds=min(seconds, timeout / 2))


def _rounds(test: Trial, nodes: int, options: Options) -> int:
    """Of all sizes of a test."""
    sizes = 1 if test.work in OWN_SIZE else len(options.sizes)
    if test.scope in ("device", "node"):
        return sizes
    if nodes == 1:
        return 0
    if test.scope == "pair":
        return sizes * (len(transfer_rounds(range(nodes))) + _SUSPECTS)
    pairs = _SUSPECTS if test.work == "all_reduce" else 0
    return sizes * len(group_rounds(range(nodes), options.group_sizes)) + pairs
