"""What a group of nodes says of one test, and whose fault it is where it failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from primus_core.records import frozen
from primus_preflight.meeting.wire import Message
from primus_preflight.model import Measurement, MeasurementStatus
from primus_preflight.performance.schedule import Group
from primus_preflight.performance.tokens import Trial
from primus_preflight.performance.values import figures


@frozen(kw_only=True)
class GroupRun:
    """One test of one size in one group."""

    test: Trial
    group: Group
    size: int
    round: int
    dtype: str
    ranks: Mapping[int, Sequence[Message]]
    """What the ranks of each node said; nodes that gave no answer are missing."""

    @property
    def lost(self) -> tuple[int, ...]:
        return tuple(node for node in self.group if node not in self.ranks)

    @property
    def figure(self) -> float:
        """The median of the repetitions; 0 where the test failed."""
        return median(self.values) if self.status == "ok" else 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """Of the group as a whole."""
        if self.status != "ok":
            return ()
        said = [rank for ranks in self.ranks.values() for rank in ranks]
        return figures([rank["seconds"] for rank in said], said[0]["amount"], self.test.unit)

    @property
    def status(self) -> MeasurementStatus:
        """The worst of all."""
        found = {status_of(rank) for ranks in self.ranks.values() for rank in ranks}
        if self.lost:
            return "timeout"
        order: tuple[MeasurementStatus, ...] = ("wrong", "error", "timeout")
        return next((one for one in order if one in found), "ok")

    @property
    def culprits(self) -> tuple[int, ...]:
        """Nodes that failed before they met the others, or, of more than two, the few that alone have wrong values."""
        own = [node for node, ranks in self.ranks.items() if any(map(_failed_alone, ranks))]
        wrong = [node for node, ranks in self.ranks.items() if any(rank.get("wrong") for rank in ranks)]
        few = wrong if len(self.group) == 1 or 2 * len(wrong) < len(self.group) else []
        return tuple(sorted({*own, *few}))

    def measurement(self) -> Measurement:
        """Of the whole group."""
        return self._measurement(self.group, self.status, self.values, self._error(self.group))

    def of_node(self, node: int) -> Measurement:
        """That names one node for what became of the group."""
        own = [status_of(rank) for rank in self.ranks.get(node, ()) if status_of(rank) != "ok"]
        return self._measurement(
            (node,), own[0] if own else self.status, (), self._error((node,)) or self._error(self.group)
        )

    def of_devices(self) -> list[Measurement]:
        """One for each device, of a test that each runs alone."""
        return [
            Measurement(
                test=self.test.name,
                nodes=self.group,
                device=rank["device"],
                size_bytes=self.size,
                dtype=self.dtype,
                values=figures([rank["seconds"]], rank["amount"], self.test.unit) if status_of(rank) == "ok" else (),
                unit=self.test.unit,
                status=status_of(rank),
                error=error_of(rank),
                round=self.round,
            )
            for ranks in self.ranks.values()
            for rank in ranks
        ]

    def _measurement(
        self, nodes: Group, status: MeasurementStatus, values: tuple[float, ...], error: str
    ) -> Measurement:
        return Measurement(
            test=self.test.name,
            nodes=nodes,
            ranks=sum(len(self.ranks.get(node, ())) for node in nodes),
            size_bytes=self.size,
            dtype=self.dtype,
            values=values,
            unit=self.test.unit,
            status=status,
            error=error,
            round=self.round,
        )

    def _error(self, nodes: Group) -> str:
        """What the first rank says that has something to say."""
        said = [(node, error_of(rank)) for node in nodes for rank in self.ranks.get(node, ())]
        return next((f"node {node}: {error}" for node, error in said if error), "")


def status_of(rank: Message) -> MeasurementStatus:
    """Of one rank: wrong values are worse than none."""
    status: MeasurementStatus = "wrong" if rank.get("wrong") else rank["status"]
    return status


def error_of(rank: Message) -> str:
    return str(rank.get("wrong") or rank.get("error", ""))


def _failed_alone(rank: Message) -> bool:
    return rank["status"] != "ok" and rank.get("stage") == "prepare"
