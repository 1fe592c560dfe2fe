"""What rank 0 writes beside a checkpoint, for those who have to judge it without torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from primus_backend_torchtitan.facts import FORMAT, MODEL, has_optimizer, is_weight
from primus_backend_torchtitan.rank.metrics import tokens_per_step
from primus_backend_torchtitan.rank.session import Session
from primus_core.checkpoints.dcp import is_dcp
from primus_core.checkpoints.sidecar import Sidecar
from primus_core.checkpoints.torchfile import Tensor

LIBRARY = "torchtitan"


def describe(session: Session, folder: Path, iteration: int) -> Sidecar:
    """The sidecar of a checkpoint whose other files are written, without these."""
    described = _described(folder)
    return Sidecar(
        step=iteration,
        time=time.time(),
        run_id=session.plan.run_id,
        library=LIBRARY,
        library_version=session.plan.target.library_version,
        format=FORMAT if described else "safetensors",
        world_size=session.plan.target.world_size,
        layout=_layout(session),
        distributed_optimizer=None,
        tokens=iteration * tokens_per_step(session),
        facts={
            **{name: session.native.get(f"model.{name}") for name in MODEL},
            "optimizer": has_optimizer(described),
        },
        tensors={
            name: Tensor(tuple(entry.size), str(entry.properties.dtype).removeprefix("torch."))
            for name, entry in described.items()
            if is_weight(name) and hasattr(entry, "size")
        },
    )


def _described(folder: Path) -> Mapping[str, Any]:
    """Every entry of the checkpoint's metadata; none of one that is a Hugging Face folder."""
    if not is_dcp(folder):
        return {}
    from torch.distributed.checkpoint import FileSystemReader

    described: Mapping[str, Any] = FileSystemReader(str(folder)).read_metadata().state_dict_metadata
    return described


def _layout(session: Session) -> dict[str, int]:
    translation = session.plan.translation
    if translation is None:
        return {}
    layout = translation.layout
    copies = layout.tensor * layout.pipeline * layout.context
    return {
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "context": layout.context,
        "expert": layout.expert,
        "data": max(1, session.plan.target.world_size // copies),
    }
