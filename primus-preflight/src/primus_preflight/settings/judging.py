"""Settings that are wrong, contradict each other, are deprecated, or do harm; from a reviewed table, with sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Literal

from attrs import field

from primus_core.outcome import Finding, Severity
from primus_core.plan import Accelerator
from primus_core.records import frozen
from primus_preflight.settings.visibility import VARIABLES

Kind = Literal["wrong", "contradicting", "deprecated", "without effect", "dangerous", "slow"]
_MOST_SOCKETS = 64
"""Of one connection of NCCL, by its documentation."""


@frozen(kw_only=True)
class Rule:
    """One row of the table."""

    kind: Kind
    severity: Severity
    why: str
    set: str
    """What to set."""
    source: str
    """The document that says so."""
    accelerators: tuple[Accelerator, ...] = ("cuda", "rocm")
    several_nodes: bool = False
    """It matters on several nodes alone."""
    holds: Mapping[str, str] = field(factory=dict)
    """Every one of these variables is set to such a value: a regular expression."""
    fails: Mapping[str, str] = field(factory=dict)
    """Every one is set, and not to such a value."""
    differ: tuple[str, ...] = ()
    """All are set, and not alike."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that it is about."""
        return (*self.holds, *self.fails, *self.differ)

    def applies(self, env: Mapping[str, str]) -> bool:
        """Whether the environment is as the rule says."""
        if not all(name in env for name in self.names):
            return False
        return (
            all(_is(env[name], pattern) for name, pattern in self.holds.items())
            and not any(_is(env[name], pattern) for name, pattern in self.fails.items())
            and (not self.differ or len({env[name] for name in self.differ}) > 1)
        )


@cache
def rules() -> tuple[Rule, ...]:
    """Every row of the table."""
    table = json.loads((Path(__file__).parent / "table.json").read_text(encoding="utf-8"))
    return tuple(
        Rule(
            kind=row["kind"],
            severity=row["severity"],
            why=row["why"],
            set=row["set"],
            source=table["sources"][row["source"]],
            accelerators=tuple(row.get("accelerators", ("cuda", "rocm"))),
            several_nodes=row.get("nodes") == "several",
            holds=row.get("if", {}),
            fails=row.get("unless", {}),
            differ=tuple(row.get("differ", ())),
        )
        for row in table["rows"]
    )


def judged(env: Mapping[str, str], accelerator: Accelerator, nodes: int) -> Iterator[Finding]:
    """What is wrong with the settings of ranks.

    Args:
        env: their environment, as far as it is known.
        accelerator: what they compute on.
        nodes: how many they are on.
    """
    for rule in rules():
        if accelerator in rule.accelerators and (nodes > 1 or not rule.several_nodes) and rule.applies(env):
            yield _finding(rule, env)
    if accelerator != "cpu":
        yield from _sockets(env)
        yield from _reversed(env)


def crowded(env: Mapping[str, str], ranks: int, cpus: int) -> Iterator[Finding]:
    """More threads of OpenMP than a host has CPUs for.

    Args:
        ranks: on one node.
        cpus: that they may use together.
    """
    value = env.get("OMP_NUM_THREADS", "")
    if value.isdecimal() and int(value) * ranks > max(cpus, ranks):
        yield Finding(
            check="settings.slow",
            severity="warning",
            summary=f"OMP_NUM_THREADS={value} makes more threads than there are CPUs",
            evidence=f"{ranks} ranks on {cpus} CPUs take turns, and wait for each other",
            remedy=f"Set it to {max(1, cpus // ranks)} or less.",
        )


def hidden(env: Mapping[str, str], accelerator: Accelerator, ranks: int) -> Iterator[Finding]:
    """A variable that shows fewer devices than a node has ranks.

    Args:
        ranks: on one node.
    """
    for name in VARIABLES[accelerator]:
        words = [word.strip() for word in env.get(name, "").split(",") if word.strip()]
        shown = list(takewhile(lambda word: not word.startswith("-"), words))  # CUDA and HIP read no further
        if shown and len(shown) < ranks:
            yield Finding(
                check="settings.devices-hidden",
                severity="error",
                summary=f"{name}={env[name]} shows {len(shown)} device{'s' * (len(shown) != 1)} to {ranks} ranks",
                evidence="each rank computes on a device of its own",
                remedy=f"Show {ranks} devices, or start {len(shown)} ranks: `--nproc {len(shown)}`.",
            )


def _finding(rule: Rule, env: Mapping[str, str]) -> Finding:
    told = " and ".join(f"{name}={env[name]}" for name in rule.names)
    verb = "is" if len(rule.names) == 1 else "are"
    how = {"contradicting": "contradict each other", "slow": f"{'makes' if verb == 'is' else 'make'} the run slow"}
    return Finding(
        check=f"settings.{rule.kind.replace(' ', '-')}",
        severity=rule.severity,
        summary=f"{told} {how.get(rule.kind, f'{verb} {rule.kind}')}",
        evidence=f"{rule.why} ({rule.source})",
        remedy=rule.set,
    )


def _sockets(env: Mapping[str, str]) -> Iterator[Finding]:
    threads, sockets = env.get("NCCL_SOCKET_NTHREADS", ""), env.get("NCCL_NSOCKS_PERTHREAD", "")
    if threads.isdecimal() and sockets.isdecimal() and int(threads) * int(sockets) > _MOST_SOCKETS:
        yield Finding(
            check="settings.contradicting",
            severity="warning",
            summary=f"NCCL_SOCKET_NTHREADS={threads} and NCCL_NSOCKS_PERTHREAD={sockets} are too many together",
            evidence=f"their product may be {_MOST_SOCKETS} at most",
            remedy="Make one of them smaller.",
        )


def _reversed(env: Mapping[str, str]) -> Iterator[Finding]:
    """A least number of channels or blocks above the largest."""
    for kind in ("NCHANNELS", "CTAS"):
        (low, least), (high, most) = ((name, env.get(name, "")) for name in (f"NCCL_MIN_{kind}", f"NCCL_MAX_{kind}"))
        if least.isdecimal() and most.isdecimal() and int(least) > int(most):
            yield Finding(
                check="settings.contradicting",
                severity="warning",
                summary=f"{low}={least} is more than {high}={most}",
                evidence="no number is both",
                remedy="Unset both: NCCL chooses by the hardware.",
            )


def _is(value: str, pattern: str) -> bool:
    return re.fullmatch(pattern, value.strip(), re.IGNORECASE) is not None
