"""Folders of `safetensors` files: what is in them, by their headers, and headers of new ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from primus_core.checkpoints.faults import Unreadable

SINGLE = "model.safetensors"
"""The only file of a small model."""
INDEX = "model.safetensors.index.json"
"""Says which file each tensor of a large model is in."""

_LENGTH = 8
"""Bytes before the header, which hold its length."""
_LARGEST_HEADER = 100_000_000
"""The format's own limit, in bytes."""
_LARGEST_INDEX = 100_000_000
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")

DTYPES: Mapping[str, tuple[str, int]] = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "bfloat16": ("BF16", 2),
    "float16": ("F16", 2),
}
"""Types of weights by torch's names: the format's name, and bytes of a number."""


@frozen(kw_only=True)
class Stored:
    """One tensor of a folder."""

    file: Path
    dtype: str
    """As the format spells it: ``BF16``."""
    shape: tuple[int, ...]


def read_folder(folder: str | Path) -> dict[str, Stored]:
    """All tensors of a model's folder, by name.

    Raises:
        Unreadable: there is no such folder, it has no weights in this format, or a file of it is missing or damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise Unreadable("it is no folder" if folder.exists() else "the folder does not exist")
    try:
        return _indexed(folder) if (folder / INDEX).is_file() else _unindexed(folder)
    except OSError as error:
        raise Unreadable(f"{error.strerror}: {error.filename}") from None


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one file, which is as long as they need.

    Raises:
        Unreadable: it is damaged or cut short.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(_LENGTH), "little")
        if size < _LENGTH or length > min(_LARGEST_HEADER, size - _LENGTH):
            raise Unreadable(f"{path.name} is damaged or cut short: {size:,} bytes, no whole header")
        content = _json(file.read(length), path.name)
    try:
        rows = {name: _row(row) for name, row in content.items() if name != "__metadata__"}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"{path.name} is damaged: its header is none of safetensors") from None
    needed = _LENGTH + length + max((end for _, _, end in rows.values()), default=0)
    if size < needed:
        raise Unreadable(f"{path.name} is cut short: {size:,} of {needed:,} bytes")
    return {name: Stored(file=path, dtype=dtype, shape=shape) for name, (dtype, shape, _) in rows.items()}


def new_header(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """What comes before the numbers of tensors that follow one another in this order.

    Args:
        tensors: type, by torch's name, and shape of each.
    """
    rows: dict[str, object] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, (dtype, shape) in tensors.items():
        end = begin + size_of(dtype, shape)
        rows[name] = {"dtype": DTYPES[dtype][0], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(rows, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return len(text).to_bytes(_LENGTH, "little") + text


def size_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor."""
    return math.prod(shape) * DTYPES[dtype][1]


def _indexed(folder: Path) -> dict[str, Stored]:
    if (folder / INDEX).stat().st_size > _LARGEST_INDEX:
        raise Unreadable(f"{INDEX} is too large for an index")
    places = _json((folder / INDEX).read_bytes(), INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise Unreadable(f"{INDEX} has no weight_map")
    files = sorted(set(places.values()))
    if foreign := [file for file in files if Path(file).name != file]:
        raise Unreadable(f"{INDEX} names a file outside of the folder: {foreign[0]}")
    _complain_of_lost(folder, files)
    headers = {file: read_header(folder / file) for file in files}
    if absent := [name for name, file in places.items() if name not in headers[file]]:
        raise Unreadable(f"{INDEX} names {absent[0]}, which {places[absent[0]]} does not have")
    return {name: headers[file][name] for name, file in places.items()}


def _unindexed(folder: Path) -> dict[str, Stored]:
    files = [SINGLE] if (folder / SINGLE).is_file() else sorted(path.name for path in folder.glob("*.safetensors"))
    if not files:
        others = sorted(path.name for path in folder.glob("*.bin"))
        raise Unreadable("it has no .safetensors file" + (f", but {others[0]}" if others else ""))
    _complain_of_lost(folder, [*files, *_whole_series(files)])
    found: dict[str, Stored] = {}
    for file in files:
        header = read_header(folder / file)
        if twice := sorted(found.keys() & header.keys()):
            raise Unreadable(f"{twice[0]} is in {found[twice[0]].file.name} and in {file}, and no {INDEX} says which")
        found |= header
    return found


def _whole_series(files: list[str]) -> Iterator[str]:
    """All names of a series, of which the last number is in each."""
    for series, last in {(match[1], match[3]) for match in map(_SHARD.fullmatch, files) if match}:
        yield from (f"{series}-{number:05d}-of-{last}.safetensors" for number in range(1, int(last) + 1))


def _complain_of_lost(folder: Path, files: list[str]) -> None:
    wanted = sorted(set(files))
    lost = [file for file in wanted if not (folder / file).is_file()]
    if lost:
        more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
        raise Unreadable(f"{len(lost)} of {len(wanted)} files are missing: {', '.join(lost[:4])}{more}")


def _row(row: Any) -> tuple[str, tuple[int, ...], int]:
    begin, end = row["data_offsets"]
    shape = tuple(row["shape"])
    if not isinstance(row["dtype"], str) or not all(type(size) is int and size >= 0 for size in (*shape, begin, end)):
        raise ValueError
    return row["dtype"], shape, end


def _json(text: bytes, name: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Unreadable(f"{name} is damaged: no JSON object")
    return content
