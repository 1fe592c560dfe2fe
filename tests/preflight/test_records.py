"""Nodes whose files are not seen where the meeting is held send what they have seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from primus_core.codec import to_json
from primus_preflight.agent.files import write_node
from primus_preflight.gathering import read
from primus_preflight.meeting.records import Records
from primus_preflight.meeting.room import Answer
from primus_preflight.model import Node
from tests.preflight.fabric import Fabric


class Telling(Fabric):
    """Nodes that send these records when they are asked.

    Args:
        records: by number of the node.
    """

    def __init__(self, nodes: int, records: Mapping[int, str]) -> None:
        super().__init__(nodes)
        self._records = records
        self.asked: list[int] = []

    def ask(self, questions: Mapping[int, Mapping[str, Any]], seconds: float) -> dict[int, Answer]:
        self.asked += questions
        return {node: Answer(message={"record": self._records[node]}, asked=0, arrived=0) for node in questions}


def record(number: int) -> str:
    return to_json(Node(node=number, host=f"host{number}"))


def test_what_is_not_here_is_asked_for(tmp_path: Path) -> None:
    """Each node's record is kept at once, and is complete when the node was there to the end; one that cannot be read,
    or says that it is another node's, is none."""
    write_node(tmp_path, Node(node=0, host="host0", complete=True))
    other = '{"node": 3, "from": "a later version"}'
    nodes = Telling(6, {1: record(1), 2: record(2), 3: other, 4: record(0), 5: "[" * 100_000})
    records = Records(tmp_path, nodes)
    records.take()
    assert nodes.asked == [1, 2, 3, 4, 5]
    assert [(one.node, one.complete) for one in read([tmp_path]).nodes] == [(0, True), (1, False), (2, False)]
    nodes.lost[2] = "it died"
    records.finish()
    assert [(one.host, one.complete) for one in read([tmp_path]).nodes] == [
        ("host0", True),
        ("host1", True),
        ("host2", False),
    ]
