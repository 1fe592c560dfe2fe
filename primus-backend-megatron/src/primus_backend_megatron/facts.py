"""What decides whether a checkpoint of Megatron fits a model and a layout, read without torch.

Ours say it in their sidecar. Others' say it in the arguments that Megatron saved with them: an object in the folder of
``torch.distributed.checkpoint``, before megatron-core 0.19 a file ``common.pt``, in the old format a part of each
rank's ``model_optim_rng.pt``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from primus_core.checkpoints.dcp import Metadata, is_dcp, lost_files, read_metadata, read_object
from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.folders import MARKER, Checkpoint
from primus_core.checkpoints.pickles import Allowed, Made
from primus_core.checkpoints.sidecar import Sidecar, read_sidecar
from primus_core.checkpoints.torchfile import TORCH_NAMES, Tensor, read_torch_file, tensors_of

ARGUMENTS = (
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "vocab_size",
    "num_experts",
    "no_save_optim",
)
"""Megatron's parameters that a sidecar repeats."""

_SIZES = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
    "data": "data_parallel_size",
}
"""Names of a layout, and Megatron's."""

_ALLOWED = Allowed(
    names=TORCH_NAMES
    | {
        "argparse.Namespace",
        "types.SimpleNamespace",
        "pathlib.PosixPath",
        "pathlib._local.PosixPath",
        "signal.Signals",
        "_io.BytesIO",
        "torch._C.Generator",
        "numpy.dtypes.UInt32DType",
        "collections.defaultdict",
        "builtins.dict",
        "__builtin__.dict",
    },
    classes_of=("megatron",),
)
"""What Megatron's own list of safe names has, and its enumerations of any version."""

_COMMON, _COMMON_FILE = "common_state/shard_0_1", "common.pt"
_LEGACY, _LEGACY_FOLDER = "model_optim_rng.pt", "mp_rank_00"
_OPTIMIZER = ("optimizer", "chained_")
_LARGEST = 1 << 62
_MOST_RANKS = 1000
"""Along one axis, whose number in a folder's name has three digits; a hundred times as many in all."""


@frozen(kw_only=True)
class Facts:
    """One checkpoint."""

    format: str
    """``torch_dist``: of global tensors, for any layout; ``torch``: a file for each rank of the model."""
    layout: Mapping[str, int] = field(factory=dict)
    """Sizes by `Layout`'s names; those that are not known are missing."""
    optimizer: bool | None = None
    """It has the optimizer's state; None: not known."""
    distributed_optimizer: str | None = None
    """How that is divided; empty: it is not; None: not known."""
    arguments: Mapping[str, object] = field(factory=dict)
    """Megatron's parameters, as far as they are known."""
    tensors: Mapping[str, Tensor] = field(factory=dict)
    """The weights: global for ``torch_dist``, those of the first rank for ``torch``."""
    step: int | None = None
    lost: tuple[str, ...] = ()
    """Files that belong to it and are not there as a whole."""


def read_facts(checkpoint: Checkpoint) -> Facts:
    """What is known of a checkpoint.

    Raises:
        Forbidden: a pickle in it names something that no checkpoint needs.
        Unreadable: it is damaged, too large to look at, or of an unknown format.
    """
    folder = checkpoint.folder
    sidecar = read_sidecar(folder / MARKER)
    if sidecar is not None and sidecar.tensors:
        return _of_sidecar(sidecar, folder)
    if is_dcp(folder):
        return _of_metadata(folder, read_metadata(folder))
    return _of_legacy(folder)


def optimizer_kind(arguments: Mapping[str, Any]) -> str | None:
    """How Megatron divides the optimizer's state in a save with these parameters; None: it does not."""
    if not arguments.get("use_distributed_optimizer"):
        return None
    if arguments.get("ckpt_format") == "torch":
        return "torch"
    return "fully_reshardable" if arguments.get("dist_ckpt_optim_fully_reshardable") else "dp_reshardable"


def layout_of(arguments: Mapping[str, Any]) -> dict[str, int]:
    """Sizes by `Layout`'s names, with ``virtual`` for the stages on a rank."""
    sizes = {name: arguments.get(native) for name, native in _SIZES.items()}
    sizes["virtual"] = arguments.get("virtual_pipeline_model_parallel_size") or 1
    return {name: size for name, size in sizes.items() if type(size) is int}


def is_weight(name: str) -> bool:
    """Whether a tensor of a checkpoint is the model's own, not a part of the optimizer's state."""
    return not name.startswith(_OPTIMIZER)


def _of_sidecar(sidecar: Sidecar, folder: Path) -> Facts:
    return Facts(
        format=sidecar.format,
        layout=sidecar.layout,
        optimizer=not sidecar.facts.get("no_save_optim"),
        distributed_optimizer=sidecar.distributed_optimizer or "",
        arguments=sidecar.facts,
        tensors=sidecar.tensors,
        step=sidecar.step,
        lost=lost_files(folder, {name: stored.size for name, stored in sidecar.files.items()}),
    )


def _of_metadata(folder: Path, metadata: Metadata) -> Facts:
    form = "torch_dist" if (folder / "metadata.json").is_file() else "torch_dcp"
    if lost := lost_files(folder, metadata.files):
        return Facts(format=form, lost=lost)
    common = _common(folder, metadata)
    arguments = _attributes(common.get("args"))
    content = common.get("content_metadata")
    sharding = content.get("distrib_optim_sharding_type") if isinstance(content, dict) else None
    has_optimizer = any(name.startswith(_OPTIMIZER) for name in (*metadata.tensors, *metadata.objects))
    return Facts(
        format=form,
        layout=layout_of(arguments),
        optimizer=has_optimizer,
        distributed_optimizer=_sharding(sharding, arguments),
        arguments=arguments,
        tensors={name: tensor for name, tensor in metadata.tensors.items() if is_weight(name)},
        step=_step(common.get("iteration")),
    )


def _sharding(told: Any, arguments: Mapping[str, Any]) -> str | None:
    """Checkpoints of before megatron-core 0.13 do not tell; Megatron concludes the same."""
    if isinstance(told, str):
        return told
    if not arguments:
        return None
    if not arguments.get("use_distributed_optimizer"):
        return ""
    return "fully_sharded_model_space" if arguments.get("ckpt_fully_parallel_save") else "dp_zero_gather_scatter"


def _common(folder: Path, metadata: Metadata) -> Mapping[Any, Any]:
    if (folder / _COMMON_FILE).is_file():
        value = _read_file(folder / _COMMON_FILE)
    elif _COMMON in metadata.objects:
        value = read_object(folder, metadata.objects[_COMMON], _ALLOWED)
    else:
        return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else {}


def _of_legacy(folder: Path) -> Facts:
    first = next((path for path in sorted(folder.glob(f"{_LEGACY_FOLDER}*/{_LEGACY}"))), None)
    if first is None:
        raise Unreadable("neither a .metadata nor an mp_rank_00 folder: no checkpoint of a format that Megatron loads")
    content = _read_file(first)
    if not isinstance(content, dict):
        raise Unreadable(f"{first.parent.name}/{first.name} holds no state of a model")
    arguments = _attributes(content.get("args"))
    weights, layout = content.get("model", content.get("model0")), layout_of(arguments)
    return Facts(
        format="torch",
        layout=layout,
        optimizer="optimizer" in content,
        distributed_optimizer=("torch" if arguments.get("use_distributed_optimizer") else "") if arguments else None,
        arguments=arguments,
        tensors=tensors_of(weights) if isinstance(weights, dict) else {},
        step=_step(content.get("iteration")),
        lost=lost_files(folder, {f"{name}/{_LEGACY}": 1 for name in _rank_folders(layout)}),
    )


def _rank_folders(layout: Mapping[str, int]) -> Iterator[str]:
    """Megatron's names of the folders of all ranks that hold a part of the model."""
    tensor, pipeline, expert = (layout.get(name, 1) for name in ("tensor", "pipeline", "expert"))
    if max(tensor, pipeline, expert, tensor * pipeline * expert // 100) > _MOST_RANKS:
        raise Unreadable(f"it says that it was saved by {tensor} x {pipeline} x {expert} ranks")
    for ranks in itertools.product(range(tensor), range(pipeline), range(expert)):
        stage = f"_{ranks[1]:03d}" if pipeline > 1 else ""
        yield f"mp_rank_{ranks[0]:02d}{stage}" + (f"_{ranks[2]:03d}" if expert > 1 else "")


def _read_file(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return read_torch_file(file, _ALLOWED)
    except OSError as error:
        raise Unreadable(str(error)) from None


def _attributes(value: Any) -> Mapping[str, Any]:
    """The attributes of a saved Namespace; of those the ones that are plain values."""
    found = value.attributes() if isinstance(value, Made) else {}
    return {name: item for name, item in found.items() if isinstance(name, str) and _is_plain(item)}


def _is_plain(value: Any) -> bool:
    return value is None or (isinstance(value, (str, float, int)) and (isinstance(value, str) or abs(value) < _LARGEST))


def _step(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _LARGEST else None
