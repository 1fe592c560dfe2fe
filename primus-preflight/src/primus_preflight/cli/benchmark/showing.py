"""What a benchmark prints at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from primus_core.render.tables import as_markdown, as_text
from primus_preflight.benchmarks.keeping import kept
from primus_preflight.benchmarks.outputs import STDOUT
from primus_preflight.benchmarks.rows import table_of


def tables_of(run_dir: Path, arguments: Mapping[str, Any]) -> list[str]:
    """The results that a run has kept, aligned, or as Markdown where they were asked for on standard output."""
    rows = kept(run_dir)
    if not rows:
        return []
    table = table_of(arguments["suite"], "results", rows)
    return [f"\n{as_markdown(table) if arguments['outputs']['results'] == STDOUT else as_text(table)}"]
