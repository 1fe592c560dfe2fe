"""Records of nodes whose files are not seen where the meeting is held, as each may have a workspace of its own."""

from __future__ import annotations

import contextlib
from pathlib import Path

from attrs import evolve

from primus_core.codec import from_json
from primus_core.errors import ConfigError
from primus_preflight.agent.files import node_file, write_node
from primus_preflight.meeting.book import Nodes
from primus_preflight.model import Node

_SECONDS = 10.0


class Records:
    """Brings them into the folder of who holds the meeting.

    Args:
        folder: of the preflight, there.
        nodes: that can be asked.
    """

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        self._folder, self._nodes = folder, nodes
        self._taken: list[Node] = []

    def take(self) -> None:
        """Ask each node that has left nothing here what it has seen, so that it is known whatever comes."""
        unseen = [node for node in self._nodes.present if not node_file(self._folder, node).exists()]
        answers = self._nodes.ask({node: {"do": "record"} for node in unseen}, _SECONDS)
        for node, answer in answers.items():
            with contextlib.suppress(ConfigError):  # of another version of Primus: it counts as missing
                seen = from_json(Node, answer.message["record"])
                if seen.node == node:
                    self._taken.append(seen)
                    write_node(self._folder, seen)

    def finish(self) -> None:
        """Those that were here to the end have said all."""
        for seen in self._taken:
            if seen.node in self._nodes.present:
                write_node(self._folder, evolve(seen, complete=True))
