"""What decides whether a checkpoint of TorchTitan fits a model, read without torch.

Ours say it in their sidecar, others' in the metadata of `torch.distributed.checkpoint`, whose tensors are global: any
layout can load them, optimizer state included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from primus_core.checkpoints.dcp import is_dcp, lost_files, read_metadata
from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.folders import MARKER, Checkpoint
from primus_core.checkpoints.sidecar import Sidecar, read_sidecar
from primus_core.checkpoints.torchfile import Tensor

FORMAT = "dcp"
"""Global tensors, for any layout."""

MODEL = ("num_layers", "hidden_size", "num_attention_heads", "vocab_size", "num_experts")
"""Portable parameters of the model that a sidecar repeats."""

_STATES = ("optimizer", "lr_scheduler", "dataloader", "train_state")
"""What TorchTitan keeps beside the weights, which stand at the top."""
_POSITION = "dataloader.consumed_samples"
"""Where `rank.tokens` keeps the position in the data."""


@frozen(kw_only=True)
class Facts:
    """One checkpoint."""

    optimizer: bool
    """It has the state of the optimizer, and the iteration."""
    position: bool
    """It has the place in the data, as Primus keeps it."""
    arguments: Mapping[str, object] = field(factory=dict)
    """Portable parameters of the model, as far as they are known."""
    tensors: Mapping[str, Tensor] = field(factory=dict)
    """The weights."""
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
    if not is_dcp(folder):
        raise Unreadable("it has no .metadata: no checkpoint of a format that TorchTitan continues")
    metadata = read_metadata(folder)
    return Facts(
        optimizer=has_optimizer((*metadata.tensors, *metadata.objects)),
        position=_POSITION in metadata.objects,
        tensors={name: tensor for name, tensor in metadata.tensors.items() if is_weight(name)},
        lost=lost_files(folder, metadata.files),
    )


def is_weight(name: str) -> bool:
    """Whether an entry of a checkpoint is the model's own."""
    return name.partition(".")[0] not in _STATES


def has_optimizer(names: Iterable[str]) -> bool:
    """Whether entries of these names are more than weights."""
    return any(name.startswith(f"{_STATES[0]}.") for name in names)


def _of_sidecar(sidecar: Sidecar, folder: Path) -> Facts:
    return Facts(
        optimizer=bool(sidecar.facts.get("optimizer")),
        position=True,
        arguments=sidecar.facts,
        tensors=sidecar.tensors,
        lost=lost_files(folder, {name: stored.size for name, stored in sidecar.files.items()}),
    )
