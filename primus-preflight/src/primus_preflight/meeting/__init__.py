"""Nodes measured with each other: the agent of one node coordinates, all agents do what they are asked.

Who cannot be reached, or stops to answer, is named and left out; the others are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from primus_core.contract import RankContext
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_preflight.agent.node import BY_HAND
from primus_preflight.model import Node


def meet(plan: RunPlan, rank: RankContext, node: Node, tests: Sequence[str], write: Callable[[Node], None]) -> Node:
    """Measure this node with the others; called in the agent of each node.

    Args:
        node: what it has seen so far.
        tests: tokens of performance tests; without any the nodes look at their clocks and who reaches whom.
        write: keeps what the node has seen.

    Returns:
        The node with what it has to say of the meeting. What was measured is in ``measurements.json``.
    """
    from primus_preflight.meeting.attending import Attending
    from primus_preflight.meeting.crew import crew
    from primus_preflight.performance.budget import limited
    from primus_preflight.performance.options import options_for
    from primus_preflight.performance.tokens import QUICK, tests_named

    given = cast("dict[str, Value]", plan.task.arguments.get("performance") or {})
    timeout = cast("float | None", plan.task.arguments.get("timeout"))
    trials = tests_named(tuple(tests))
    if plan.launcher in BY_HAND and (wait := rank.env.get("NODES_WAIT_SECONDS")):
        given = {"join_seconds": float(wait), **given}
    options = options_for(given, node.accelerator, quick=tuple(tests) == QUICK)
    options = limited(options, rank.world_size, trials, timeout)
    with crew(node, trials, options) as workers:
        met = Attending(plan, rank, node, trials, options, workers).attend()
    write(met)
    return met
