"""What rank 0 writes beside a checkpoint, for those who have to judge it without torch."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from primus_backend_megatron.checkpoints import NAMING
from primus_backend_megatron.facts import ARGUMENTS, is_weight, layout_of, optimizer_kind
from primus_backend_megatron.rank.session import CURRENT
from primus_core.checkpoints.dcp import is_dcp
from primus_core.checkpoints.sidecar import Sidecar
from primus_core.checkpoints.torchfile import Tensor
from primus_core.discovery import installed_version

LIBRARY = "megatron-core"


def describe(args: Namespace, save: str, iteration: int) -> Sidecar:
    """The sidecar of a checkpoint whose other files are written, without these."""
    values, folder = vars(args), NAMING.folder(save, iteration)
    session, now = CURRENT.get(None), trained_tokens(args)
    return Sidecar(
        step=iteration,
        time=time.time(),
        run_id=session.plan.run_id if session else "",
        library=LIBRARY,
        library_version=installed_version(LIBRARY) or "",
        format=args.ckpt_format,
        world_size=args.world_size,
        layout=layout_of(values),
        distributed_optimizer=optimizer_kind(values),
        tokens=session.saved_tokens.get(iteration, now) if session else now,
        facts={name: values[name] for name in ARGUMENTS},
        tensors=_weights(folder),
    )


def trained_tokens(args: Namespace) -> int:
    """Tokens trained on until now, by all ranks."""
    return int(args.consumed_train_samples * args.seq_length)


def _weights(folder: Path) -> Mapping[str, Tensor]:
    """Global shapes, read once a run: a large model's metadata has as many entries as it has shards."""
    session = CURRENT.get(None)
    if session is not None and session.weights is not None:
        return session.weights
    weights = _read_weights(folder) if is_dcp(folder) else {}
    if session is not None:
        session.weights = weights
    return weights


def _read_weights(folder: Path) -> dict[str, Tensor]:
    from torch.distributed.checkpoint import FileSystemReader

    described = FileSystemReader(str(folder)).read_metadata().state_dict_metadata
    return {
        name: Tensor(tuple(entry.size), str(entry.properties.dtype).removeprefix("torch."))
        for name, entry in described.items()
        if is_weight(name) and hasattr(entry, "size")
    }
