"""What a node says of itself when it comes, and what must be alike on all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import asdict, frozen


@frozen(kw_only=True)
class Facts:
    """One node."""

    rank: int
    nodes: int
    host: str
    accelerator: str
    ranks_per_node: int
    python: str
    """Version of the interpreter."""
    versions: Mapping[str, str]
    """Of Primus' distributions and of the training library."""
    folder: str
    """Of the experiment."""

    @property
    def name(self) -> str:
        return f"node {self.rank} ({self.host})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Facts:
        """What another node sent.

        Raises:
            KeyError, TypeError, ValueError: it is nothing of the kind.
        """
        return cls(
            rank=int(told["rank"]),
            nodes=int(told["nodes"]),
            host=str(told["host"]),
            accelerator=str(told["accelerator"]),
            ranks_per_node=int(told["ranks_per_node"]),
            python=str(told["python"]),
            versions={str(name): str(version) for name, version in told["versions"].items()},
            folder=str(told["folder"]),
        )


def differences(leader: Facts, guest: Facts) -> Iterator[str]:
    """What must be alike and is not, in words."""
    for what, ours, theirs in _pairs(leader, guest):
        if ours != theirs:
            yield f"{what}: {ours} on {leader.name}, {theirs} on {guest.name}"


def _pairs(leader: Facts, guest: Facts) -> Iterator[tuple[str, object, object]]:
    yield "NNODES", leader.nodes, guest.nodes
    yield "accelerator", leader.accelerator, guest.accelerator
    yield "ranks on the node", leader.ranks_per_node, guest.ranks_per_node
    yield "folder of the experiment", leader.folder, guest.folder
    yield "Python", leader.python, guest.python
    for name in sorted({*leader.versions, *guest.versions}):
        yield name, leader.versions.get(name, "not installed"), guest.versions.get(name, "not installed")
