"""A copy of Primus that travels with a run to where it is not installed: into a container's image.

``FOLDER/start.py MODULE ...`` runs a module of it; ``FOLDER/bundle.json`` says what is there; each distribution has a
folder of its own, which ``start.py`` puts on ``sys.path``. Python, torch and the training library are the image's.
"""

from __future__ import annotations

import json
import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from attrs import asdict

from primus_core import discovery
from primus_core.bundle.needs import PYTHONS, Carried, Load, Need, collect
from primus_core.plan import RunPlan

FOLDER = "code"
"""Its name in a run's ``submission`` folder."""
START = "start.py"
LIST = "bundle.json"

__all__ = ["FOLDER", "LIST", "PYTHONS", "START", "Carried", "Load", "Need", "collect", "write"]


def write(folder: Path, plan: RunPlan) -> None:
    """Write the code that the ranks of a plan run; what the folder held before is replaced, at once and as a whole.

    Raises:
        DependencyError: a distribution that the plan uses cannot be copied.
        OSError: the folder cannot be written.
    """
    load = collect(discovery.used(plan, discovery.scan()))
    new, old = (folder.parent / f".{folder.name}.{os.getpid()}.{what}" for what in ("new", "old"))
    try:
        _fill(new, load)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def _fill(folder: Path, load: Load) -> None:
    for name, one in load.carried.items():
        _copy(folder / name, one)
    (folder / LIST).write_text(json.dumps(_listing(load), indent=1), encoding="utf-8")
    with as_file(files(__name__) / START) as start:
        shutil.copyfile(start, folder / START)


def _copy(folder: Path, one: Carried) -> None:
    made: set[Path] = set()
    for place, source in one.contents.files.items():
        target = folder / place
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        shutil.copyfile(source, target)
    info = f"{one.contents.name.replace('-', '_')}-{one.contents.version}.dist-info"
    for name, text in one.contents.metadata.items():
        path = folder / info / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _listing(load: Load) -> dict[str, Any]:
    return {
        "distributions": {name: _described(one) for name, one in load.carried.items()},
        "absent": [asdict(need) for need in load.absent],
    }


def _described(one: Carried) -> dict[str, Any]:
    needs = [asdict(need) for need in one.needs]
    return {"version": one.contents.version, "python": one.contents.python, "planned": one.planned, "needs": needs}
