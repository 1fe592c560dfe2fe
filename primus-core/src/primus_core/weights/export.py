"""The export of a checkpoint to a Hugging Face folder: which files it will have, and how it comes into being."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from primus_core.checkpoints.safetensors import DTYPES, INDEX, SINGLE, size_of
from primus_core.checkpoints.torchfile import Tensor
from primus_core.errors import ConfigError, RunError
from primus_core.files import write_atomic
from primus_core.weights import huggingface
from primus_core.weights.architecture import Dense
from primus_core.weights.table import Kept

WRITER = "primus_core.tensors.writing"
"""The module that a Python with torch runs, with a `Request` in a file."""

_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files that `transformers` looks for."""


@frozen(kw_only=True)
class Part:
    """One weight of the checkpoint, and the tensors that it becomes."""

    kept: Kept
    shapes: Mapping[str, tuple[int, ...]]
    """By Hugging Face's name, in order."""
    dtype: str
    """By torch's name."""

    @property
    def bytes(self) -> int:
        return sum(size_of(self.dtype, shape) for shape in self.shapes.values())


@frozen(kw_only=True)
class Shard:
    """One file of tensors."""

    file: str
    parts: tuple[Part, ...]


@frozen(kw_only=True)
class Request:
    """What the child process has to do."""

    checkpoint: str
    output: str
    """An existing, empty folder."""
    shards: tuple[Shard, ...]


def shards_of(
    kept: Sequence[Kept], tensors: Mapping[str, Tensor], model: Dense, dtype: str | None, most: int
) -> tuple[Shard, ...]:
    """The files of a checkpoint's weights.

    Args:
        tensors: the checkpoint's.
        dtype: to convert to, by torch's name; None: as the checkpoint has them.
        most: bytes of a file, unless one weight alone has more.

    Raises:
        RunError: a tensor of the checkpoint has another shape than the model, or a type that cannot be exported.
    """
    shapes = huggingface.tensors(model)
    parts = [_part(one, tensors[one.name], shapes, dtype) for one in kept]
    groups: list[list[Part]] = [[]]
    room = most
    for part in parts:
        if groups[-1] and part.bytes > room:
            groups.append([])
            room = most
        groups[-1].append(part)
        room -= part.bytes
    names = [SINGLE] if len(groups) == 1 else [_shard(number, len(groups)) for number in range(1, len(groups) + 1)]
    return tuple(Shard(file=name, parts=tuple(group)) for name, group in zip(names, groups, strict=True))


def _part(kept: Kept, tensor: Tensor, shapes: Mapping[str, tuple[int, ...]], dtype: str | None) -> Part:
    mine = {name: shapes[name] for name in kept.weight.parts}
    theirs = tensor.shape[1:] if kept.layer is not None else tensor.shape
    first = next(iter(mine.values()))
    rows = kept.weight.rows or sum(shape[0] for shape in mine.values())
    if theirs != (rows, *first[1:]):
        what = f"{kept.name} is {list(theirs)} in the checkpoint and {[rows, *first[1:]]} in the run's model"
        raise RunError(what, remedy="the run's folder holds checkpoints of another model: name their run")
    if tensor.dtype not in DTYPES:
        raise RunError(f"{kept.name} is {tensor.dtype or 'of an unknown type'}", why=f"known are {', '.join(DTYPES)}")
    return Part(kept=kept, shapes=mine, dtype=dtype or tensor.dtype)


def _shard(number: int, count: int) -> str:
    return f"model-{number:05d}-of-{count:05d}.safetensors"


@contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """A folder that appears under its name when all that was to be written in it is written, or not at all.

    Raises:
        ConfigError: there is something of that name.
        RunError: the folder cannot be made.
    """
    if os.path.lexists(output):
        raise ConfigError(f"{output} exists", why="nothing is overwritten", remedy="name a folder that does not exist")
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _flush(temporary)
        if os.path.lexists(output):
            raise ConfigError(f"{output} has come into being meanwhile", remedy="name a folder that does not exist")
        temporary.rename(output)
    except OSError as error:
        raise RunError(f"cannot write {output}", why=str(error), remedy="make room, or name another folder") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _flush(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_descriptions(
    folder: Path, model: Dense, shards: Sequence[Shard], tokens: Mapping[str, object], tokenizer: str | None
) -> None:
    """Everything but the weights: config.json, the index of several files, and a local tokenizer's files.

    Args:
        tokens: ids of special tokens: ``eos_token_id``.
        tokenizer: a file, or the folder that holds several.
    """
    dtypes = {part.dtype for shard in shards for part in shard.parts}
    dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
    config = {**huggingface.config_of(model, dtype), **tokens}
    write_atomic(folder / huggingface.CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")
    if len(shards) > 1:
        places = {name: shard.file for shard in shards for part in shard.parts for name in part.shapes}
        total = sum(part.bytes for shard in shards for part in shard.parts)
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        write_atomic(folder / INDEX, json.dumps(index, indent=2) + "\n")
    for path in tokenizer_files(tokenizer):
        shutil.copyfile(path, folder / path.name)


def tokenizer_files(tokenizer: str | None) -> tuple[Path, ...]:
    """The files of a tokenizer that is a local folder or file; what stands beside a file belongs to it."""
    if tokenizer is None or not os.path.exists(tokenizer):
        return ()
    path = Path(tokenizer)
    beside = path if path.is_dir() else path.parent
    names = _TOKENIZER if path.is_dir() or path.name in _TOKENIZER else ()
    found = tuple(beside / name for name in names if (beside / name).is_file())
    return found or ((path,) if path.is_file() else ())
