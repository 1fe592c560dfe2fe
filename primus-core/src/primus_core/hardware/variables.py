"""Environment variables that suit a GPU model, from one data file of published advice, and the models of a host.

The file holds what is advised for every training on a model. What depends on the fabric (network interfaces, the GID
index), on the layout (`CUDA_DEVICE_MAX_CONNECTIONS`, which a back end sets) or on the workload is not in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from primus_core.kfd import kfd_accelerators
from primus_core.records import frozen

_AMD = "1002"
_PROC = "proc/driver/nvidia/gpus"


@frozen(kw_only=True)
class Variable:
    """One variable that is set on the models named, unless anybody else sets it."""

    name: str
    value: str
    models: tuple[str, ...]
    why: str
    source: str
    """The document that advises it."""


@cache
def model_variables() -> tuple[Variable, ...]:
    """Every row of the data file."""
    table = _table()
    return tuple(
        Variable(**{**row, "models": tuple(row["models"]), "source": table["sources"][row["source"]]})
        for row in table["variables"]
    )


def variables_of(model: str) -> tuple[Variable, ...]:
    """The variables of one model (``MI300X``); none for a model that the file does not have."""
    return tuple(variable for variable in model_variables() if model in variable.models)


def find_gpus(root: Path = Path("/")) -> tuple[str, ...]:
    """The different GPUs of a host: names of models that the data file knows, otherwise what the driver says.

    Only files are read: KFD's for AMD, those of the driver for NVIDIA.

    Args:
        root: the file system to look at; another one than ``/`` only in tests.
    """
    return tuple(sorted({*_amd(root), *_nvidia(root)}))


def _amd(root: Path) -> Iterator[str]:
    by_id = {name: model for model, row in _table()["models"].items() for name in row.get("pci", ())}
    for table in kfd_accelerators(root):
        name = f"{_AMD}:{table.get('device_id', 0):04x}"
        yield by_id.get(name, name)


def _nvidia(root: Path) -> Iterator[str]:
    for path in (root / _PROC).glob("*/information"):
        name = _model_line(path)
        if name:
            yield next((model for model, row in _table()["models"].items() if _is_named(row, name)), name)


def _model_line(path: Path) -> str:
    try:
        found = re.search(r"^Model:\s*(.*?)\s*$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""


def _is_named(row: dict[str, Any], device: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", device) for name in row.get("names", ()))


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads((Path(__file__).parent / "variables.json").read_text(encoding="utf-8"))
    return table
