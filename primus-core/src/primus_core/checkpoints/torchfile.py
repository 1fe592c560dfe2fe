"""What a file of `torch.save` holds beside the numbers of its tensors, read without torch."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

from attrs import frozen

from primus_core.checkpoints.faults import Unknown, Unreadable
from primus_core.checkpoints.pickles import Allowed, Global, Made, Stored, read_pickle

LARGEST = 16 << 20
"""Bytes of metadata that are looked at; reading them takes some seconds."""

_DTYPE_OF = {
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Float": "float32",
    "Double": "float64",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e4m3fnuz": "float8_e4m3fnuz",
    "Float8_e5m2": "float8_e5m2",
    "Float8_e5m2fnuz": "float8_e5m2fnuz",
}
"""Types by the names of their storages."""

DTYPES = frozenset({*_DTYPE_OF.values(), "uint16", "uint32", "uint64", "float8_e8m0fnu", "float4_e2m1fn_x2"})
"""The types that torch has, as it spells them."""

_REBUILT = ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3")
_PARAMETERS = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")

TORCH_NAMES = frozenset(
    {
        *(f"torch.{name}" for name in DTYPES),
        *(f"torch.{name}Storage" for name in _DTYPE_OF),
        *_REBUILT,
        *_PARAMETERS,
        "torch.Size",
        "torch.device",
        "torch.storage.UntypedStorage",
        "torch.storage.TypedStorage",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "collections.OrderedDict",
        "builtins.set",
        "__builtin__.set",
        "builtins.frozenset",
        "__builtin__.frozenset",
        "builtins.bytearray",
        "_codecs.encode",
        "numpy.dtype",
        "numpy.ndarray",
        "numpy._core.multiarray._reconstruct",
        "numpy.core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy.core.multiarray.scalar",
    }
)
"""What torch itself writes for tensors, and for the plain values beside them."""

_MAGIC = b"PK\x03\x04"
_CONTENT = "data.pkl"


@frozen
class Tensor:
    """Shape and type of a tensor of a checkpoint."""

    shape: tuple[int, ...]
    dtype: str
    """As torch spells it, without ``torch.``: ``bfloat16``."""


def read_torch_file(file: IO[bytes], allowed: Allowed) -> Any:
    """The value of a `torch.save` file in its zip format; `as_tensor` recognizes the tensors in it.

    Raises:
        Forbidden: it names something that is not allowed.
        Unreadable: it is damaged; `Unknown`: too large, or of the format before torch 1.6.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise Unknown("not a zip archive, as torch writes them since version 1.6")
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            return read_pickle(_content(archive), allowed)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Unreadable(f"not a sound zip archive ({error})") from None


def read_torch_bytes(data: bytes, allowed: Allowed) -> Any:
    """`read_torch_file` of a file within a file, which is never of the old format."""
    if not data.startswith(_MAGIC):
        raise Unreadable("an object within is not a zip archive, as torch writes them")
    return read_torch_file(io.BytesIO(data), allowed)


def as_tensor(value: Any) -> Tensor | None:
    """The tensor that torch would make of a value; None where it is none."""
    if isinstance(value, Made) and value.name in _PARAMETERS and value.arguments:
        return as_tensor(value.arguments[0])
    if not isinstance(value, Made) or value.name not in _REBUILT or len(value.arguments) < 3:
        return None
    shape, dtype = as_shape(value.arguments[2]), _stored_dtype(value.arguments[0])
    return None if shape is None else Tensor(shape, dtype)


def as_shape(value: Any) -> tuple[int, ...] | None:
    """The numbers of a shape, plain or as `torch.Size`; None for anything else."""
    if isinstance(value, Made) and value.name == "torch.Size" and len(value.arguments) == 1:
        return as_shape(value.arguments[0])
    sizes = tuple(value) if isinstance(value, (tuple, list)) else None
    return sizes if sizes is not None and all(type(size) is int and 0 <= size < 1 << 62 for size in sizes) else None


def as_dtype(value: Any) -> str:
    """The name of a type; empty for anything else."""
    name = value.name.removeprefix("torch.") if isinstance(value, Global) else ""
    return name if name in DTYPES else ""


def tensors_of(values: Mapping[Any, Any]) -> dict[str, Tensor]:
    """The tensors among the entries of a dictionary, by their keys."""
    found = {key: as_tensor(value) for key, value in values.items() if isinstance(key, str)}
    return {key: tensor for key, tensor in found.items() if tensor is not None}


def _stored_dtype(storage: Any) -> str:
    """Of ``('storage', torch.FloatStorage, key, device, numbers)``."""
    parts = storage.id if isinstance(storage, Stored) and isinstance(storage.id, tuple) else ()
    kind = parts[1] if len(parts) > 1 else None
    name = kind.name.removeprefix("torch.").removesuffix("Storage") if isinstance(kind, Global) else ""
    return _DTYPE_OF.get(name, "")


def _content(archive: zipfile.ZipFile) -> bytes:
    name = next((name for name in archive.namelist() if name.count("/") == 1 and name.endswith(f"/{_CONTENT}")), None)
    if name is None:
        raise Unreadable(f"the archive holds no {_CONTENT}")
    with archive.open(name) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unknown(f"more than {LARGEST >> 20} MiB of metadata")
    return data
