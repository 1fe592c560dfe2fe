"""The files of a preflight, in its run's folder ``preflight``.

``asked.json`` says what was asked for, ``node-N.json`` what a node has seen, ``measurements.json`` what was measured in
the meeting that node 0 held, ``measurements-N.json`` in that of a node in its place; ``node-N.done`` is there when a
node has said all. No file has the value of a secret variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from primus_core.codec import to_json
from primus_core.files import write_atomic
from primus_core.log.redaction import Redactor
from primus_core.plan import RunPlan
from primus_core.records import frozen
from primus_core.rundir import RunDir
from primus_preflight.agent.redaction import redacted_measurements
from primus_preflight.model import GATHERED_SCHEMA, Gathered, Measurement, Node

_FOLDER, ASKED = "preflight", "asked.json"
MEASUREMENTS, NODE, DONE = "measurements*.json", "node-*.json", "node-*.done"


@frozen(kw_only=True)
class Measured:
    """What is in ``measurements.json``: all of one meeting."""

    run_id: str
    coordinator: int = 0
    """The node that held it."""
    measurements: tuple[Measurement, ...]
    complete: bool = False
    """The meeting came to its end; in one that did not, its nodes met again without the node that held it."""
    schema: int = GATHERED_SCHEMA


def folder_of(plan: RunPlan) -> Path:
    return Path(plan.run_dir) / _FOLDER


def write_asked(plan: RunPlan, asked: Gathered) -> None:
    """Write what the nodes are asked for; it has no nodes yet.

    Raises:
        RunError: the run's folder is not writable, or full.
    """
    try:
        write_atomic(folder_of(plan) / ASKED, to_json(asked))
    except OSError as error:
        raise RunDir(Path(plan.run_dir)).unwritable(error) from None


def node_file(folder: Path, number: int) -> Path:
    return folder / f"node-{number}.json"


def write_node(folder: Path, node: Node) -> None:
    """Write what a node has seen so far, which `redacted_node` has gone through."""
    path = node_file(folder, node.node)
    write_atomic(path, to_json(node))
    if node.complete:
        path.with_suffix(".done").touch()


def write_measurements(
    plan: RunPlan, redact: Redactor, measurements: Sequence[Measurement], coordinator: int = 0, *, complete: bool
) -> None:
    """Write what groups of nodes have measured so far.

    Args:
        coordinator: the node that held the meeting; there may be two of them where a network is in parts.
        complete: these are all.
    """
    said = redacted_measurements(measurements, redact)
    measured = Measured(run_id=plan.run_id, coordinator=coordinator, measurements=said, complete=complete)
    name = f"measurements-{coordinator}.json" if coordinator else "measurements.json"
    write_atomic(folder_of(plan) / name, to_json(measured))
