"""The plugin of `examples/plugin`, installed for one test without pip."""

from __future__ import annotations

import os
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/plugin"


def install_example(site: Path) -> dict[str, str]:
    """Write the metadata that a wheel of the example would have; returns the environment that sees it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = site / f"primus_line-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, names in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PRIMUS_", "MASTER_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(site), str(EXAMPLE / "src")]), "OMP_NUM_THREADS": "1"}
