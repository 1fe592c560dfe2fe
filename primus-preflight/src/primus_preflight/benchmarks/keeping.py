"""Where the rows of a run are kept: all of them in its folder, and in the files that the user asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from primus_core.files import write_atomic
from primus_preflight.benchmarks.outputs import STDOUT, json_lines, write_output
from primus_preflight.benchmarks.rows import Kind, Row

_FOLDER = "benchmark"


def keep(run_dir: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    """Write ``benchmark/results.jsonl`` of the run, and its other tables where they have rows."""
    folder = run_dir / _FOLDER
    folder.mkdir(exist_ok=True)
    for kind, rows in tables.items():
        if rows:
            write_atomic(folder / f"{kind}.jsonl", json_lines(rows))


def kept(run_dir: Path) -> list[Row]:
    """The results that a run has kept; none where it has not come so far."""
    try:
        text = (run_dir / _FOLDER / "results.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def write_outputs(asked: Mapping[str, Any], tables: Mapping[str, Sequence[Row]]) -> tuple[str, ...]:
    """Write the files that a plan's arguments name; returns their paths.

    Raises:
        RunError: one cannot be written.
    """
    named = {kind: path for kind, path in asked["outputs"].items() if path != STDOUT and tables[kind]}
    for kind, path in named.items():
        write_output(path, asked["suite"], cast(Kind, kind), tables[kind], overwrite=asked["overwrite"])
    return tuple(named.values())
