"""Writes the files of an export: ``python -m primus_core.tensors.writing REQUEST``, a request as JSON.

Tells on standard output, a line each, how many bytes are written. One weight of the model is in memory at a time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from primus_core.checkpoints.safetensors import new_header
from primus_core.codec import from_json
from primus_core.tensors.joining import parted
from primus_core.tensors.stored import Stored
from primus_core.weights.export import Part, Request, Shard


def main(path: str) -> None:
    """Write all files of a request."""
    request = from_json(Request, Path(path).read_text(encoding="utf-8"))
    checkpoint, done = Stored(request.checkpoint), 0
    for shard in request.shards:
        with (Path(request.output) / shard.file).open("xb") as file:
            file.write(_header(shard))
            for part in shard.parts:
                for tensor in _tensors(part, checkpoint):
                    file.write(memoryview(tensor.contiguous().view(torch.uint8).numpy()))
                done += part.bytes
                sys.stdout.write(f"{done}\n")
                sys.stdout.flush()


def _header(shard: Shard) -> bytes:
    return new_header({name: (part.dtype, shape) for part in shard.parts for name, shape in part.shapes.items()})


def _tensors(part: Part, checkpoint: Stored) -> list[Any]:
    tensor = checkpoint.read(part.kept.name, part.kept.layer).to(getattr(torch, part.dtype))
    return parted(part.kept.weight, tensor, list(part.shapes.values()))


if __name__ == "__main__":
    main(sys.argv[1])
