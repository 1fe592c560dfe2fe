"""The file beside a checkpoint's own that tells, in JSON, what it holds: written by our saves, last of all files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, fields, frozen

from primus_core.checkpoints.contents import Stored
from primus_core.checkpoints.dcp import read_bytes
from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.torchfile import Tensor

SCHEMA = 2
"""Version of the layout of this file."""
_KNOWN = (1, SCHEMA)
"""Version 1 had the names of the files alone."""


@frozen(kw_only=True)
class Sidecar:
    """What a checkpoint holds, and what wrote it."""

    step: int
    """Number of optimizer steps that it was saved after."""
    time: float
    """When it was complete, in seconds since the epoch."""
    run_id: str
    library: str
    """Distribution that wrote the checkpoint's own files: ``megatron-core``."""
    library_version: str
    format: str
    """The library's name for the layout of its files: ``torch_dist``."""
    world_size: int
    layout: Mapping[str, int]
    """Ranks along ``tensor``, ``pipeline``, ``virtual`` (stages on a rank), ``context``, ``expert`` and ``data``."""
    distributed_optimizer: str | None
    """The library's name for how the optimizer's state is divided over ranks; None: each has all of its part."""
    tokens: int
    """Trained on until then, global."""
    facts: Mapping[str, object] = field(factory=dict)
    """The library's own parameters that decide whether the checkpoint fits a model."""
    files: Mapping[str, Stored] = field(factory=dict)
    """The checkpoint's own files by their paths in it, by which a damaged one is known."""
    tensors: Mapping[str, Tensor] = field(factory=dict)
    """Global shapes and types of the weights, by the library's names; empty where the library has no global ones."""


def as_mapping(sidecar: Sidecar) -> dict[str, object]:
    """The sidecar in plain values."""
    values = {attribute.name: getattr(sidecar, attribute.name) for attribute in fields(Sidecar)}
    tensors = {name: [tensor.dtype, *tensor.shape] for name, tensor in sorted(sidecar.tensors.items())}
    files = {name: [stored.size, stored.sha256] for name, stored in sorted(sidecar.files.items())}
    return {"schema": SCHEMA, **values, "files": files, "tensors": tensors}


def to_text(content: Mapping[str, object]) -> str:
    """The file's content: a line for each entry, and for each tensor."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {_lines(value)}" for key, value in content.items()) + "\n}\n"


def _lines(value: object) -> str:
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value)
    return "{\n" + ",\n".join(f"    {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()) + "\n  }"


def read_sidecar(path: str | Path) -> Sidecar | None:
    """The sidecar; None where there is none, or one of a layout that is not known here.

    Raises:
        Unreadable: it may not be read, or is damaged.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        content = json.loads(read_bytes(path))
        return _parsed(content) if isinstance(content, dict) and content.get("schema") in _KNOWN else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"not a sound sidecar ({type(error).__name__}: {error})") from None


def _files(told: Any) -> dict[str, Stored]:
    if isinstance(told, list):
        return dict.fromkeys(map(str, told), Stored(0))
    return {name: Stored(int(size), str(sha256)) for name, (size, sha256) in told.items()}


def _parsed(content: dict[str, Any]) -> Sidecar:
    optimizer = content["distributed_optimizer"]
    return Sidecar(
        step=int(content["step"]),
        time=float(content["time"]),
        run_id=str(content["run_id"]),
        library=str(content["library"]),
        library_version=str(content["library_version"]),
        format=str(content["format"]),
        world_size=int(content["world_size"]),
        layout={str(name): int(size) for name, size in content["layout"].items()},
        distributed_optimizer=None if optimizer is None else str(optimizer),
        tokens=int(content["tokens"]),
        facts=dict(content["facts"]),
        files=_files(content["files"]),
        tensors={
            name: Tensor(tuple(map(int, shape)), str(dtype)) for name, (dtype, *shape) in content["tensors"].items()
        },
    )
