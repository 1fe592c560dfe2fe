"""Stages of a pipeline without their neighbours: what these would tell before the first step and send in it.

`torch.distributed.pipelining` asks the stage before for the sizes of its outputs and the stage after for those of its
gradients. Inside of a model both are those of the residual stream, whatever the stage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._utils import (
    InferenceMode,
    _StageBackwardMeta,
    _StageForwardMeta,
    extract_tensor_metas,
)
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle, _PipelineSchedule

from primus_backend_torchtitan.rank.patches.pipeline import step_over_micro_batches


def stages_of(schedule: Any) -> Sequence[Any]:
    """The stages of this rank."""
    return getattr(schedule, "_stages", None) or [schedule._stage]


def begin(schedule: Any) -> int:
    """Forget the last step, as the next one does first; bytes of the buffers that a rank receives in."""
    for stage in stages_of(schedule):
        stage.clear_runtime_states()
    storages = [buffer.untyped_storage() for stage in stages_of(schedule) for buffer in _buffers(stage)]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def _buffers(stage: Any) -> Iterator[Any]:
    for infos in (*stage.args_recv_info.values(), *getattr(stage, "grad_recv_info", {}).values()):
        for info in infos:
            if info.buffer is not None:
                yield info.buffer


@contextlib.contextmanager
def neighbours(stream: Callable[[], Any]) -> Iterator[None]:
    """Every stage is told that what arrives is like this tensor, and so are gradients."""

    def receive(self: Any, source: int) -> Any:
        before = source < self.stage_index
        told = (stream().requires_grad_(before),)
        self._mesh_cache.update_from_tensors(told)
        metas = extract_tensor_metas(told)
        return _StageForwardMeta(forward_metas=metas) if before else _StageBackwardMeta(backward_metas=metas)

    def ask(self: Any, stages: Sequence[Any], *args: Any) -> None:
        for stage in stages:
            stage._inference_mode = InferenceMode.DYNAMIC

    with (
        mock.patch.object(PipelineScheduleSingle, "step", step_over_micro_batches(PipelineScheduleSingle.step)),
        mock.patch.object(PipelineScheduleMulti, "step", step_over_micro_batches(PipelineScheduleMulti.step)),
        mock.patch.object(PipelineStage, "_recv_meta", receive),
        mock.patch.object(PipelineStage, "_send_meta", return_value=None),
        mock.patch.object(_PipelineSchedule, "_warmup_p2p", ask),
    ):
        yield
