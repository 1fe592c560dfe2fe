"""Floating-point operations of training, from those that operators tell: products of matrices, nothing else.

Conventions, which published figures often leave open:

- *Model* operations are those that training needs, in every layout the same: forward, and twice as many backward
  (gradients of activations and of weights). What runs again to save memory is not counted, nor what a fused attention
  computes again in its backward pass.
- *Hardware* operations are all that run: these too, products that each tensor parallel rank makes whole, and those with
  rows that pad the vocabulary.
- Of causal attention the ``half`` is counted that the mask leaves (as Megatron and Megatron-Bridge do), or the
  ``whole`` (as TorchTitan, PaLM's appendix and PyTorch's FlopCounterMode do).
"""

from __future__ import annotations

from typing import Literal

from primus_core.projection.halves import turns
from primus_core.projection.keeping import Part, Plan, again, plan_of
from primus_core.projection.order import halved
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Operator, Run

Attention = Literal["half", "whole"]


@frozen(kw_only=True)
class Flops:
    """Of one token, forward and backward through the whole model.

    Attributes:
        model: that training needs.
        hardware: that run.
        attention: how much of causal attention is counted.
        tokens: of one optimizer step over all ranks.
        ranks: that share them.
    """

    model: float
    hardware: float
    attention: Attention
    tokens: int
    ranks: int

    @property
    def model_per_iteration(self) -> float:
        """Of one optimizer step over all ranks."""
        return self.model * self.tokens

    @property
    def model_per_gpu(self) -> float:
        """Of one optimizer step, a rank's equal share."""
        return self.model_per_iteration / self.ranks

    @property
    def hardware_per_iteration(self) -> float:
        """Of one optimizer step over all ranks."""
        return self.hardware * self.tokens

    @property
    def hardware_per_gpu(self) -> float:
        """Of one optimizer step, a rank's equal share."""
        return self.hardware_per_iteration / self.ranks


def flops_of(shape: ModelShape, attention: Attention = "half") -> Flops:
    """Counts a model by one convention."""
    runs = [run for stage in shape.stages for chunk in stage for run in chunk]
    model = sum(run.count * _needed(shape.blocks[run.block], attention) for run in runs)
    hardware = sum(hardware_of(shape, stage, attention) for stage in range(len(shape.stages)))
    return Flops(
        model=model / shape.tokens,
        hardware=hardware / shape.tokens,
        attention=attention,
        tokens=shape.samples * shape.sequence,
        ranks=ranks_of(shape),
    )


def ranks_of(shape: ModelShape) -> int:
    """All ranks of the run; those of context parallel are among ``data``."""
    return shape.group("data") * shape.group("tensor") * len(shape.stages)


def hardware_of(shape: ModelShape, stage: int, attention: Attention = "half") -> float:
    """Of one micro batch on all ranks of a pipeline stage that share it: hardware operations, a mean over the step."""
    chunks = shape.stages[stage]
    late = halved(shape.schedule, stage, len(shape.stages), len(chunks))
    shares = [number / shape.schedule.micro_batches for number in late]
    ran = ((shape.blocks[run.block], run, share) for chunk, share in zip(chunks, shares, strict=True) for run in chunk)
    return sum(
        run.count * _ran(block, attention) + _again(shape, run, block, attention, share) for block, run, share in ran
    )


def _counted(operator: Operator, flops: int, attention: Attention) -> float:
    return flops / 2 if operator.causal and attention == "half" else flops


def _forward(operator: Operator, attention: Attention) -> float:
    """All that runs."""
    told = operator.hardware_flops
    return _counted(operator, operator.flops if told is None else told, attention)


def _backward(operator: Operator, attention: Attention) -> float:
    """All that runs."""
    if operator.backward_flops is None:
        return 2 * _forward(operator, attention)
    return _counted(operator, operator.backward_flops, attention)


def _needed(block: Block, attention: Attention) -> float:
    forward = ((each, _counted(each, each.flops, attention)) for each in block.operators)
    return sum(flops + min(_backward(each, attention), 2 * flops) for each, flops in forward)


def _ran(block: Block, attention: Attention) -> float:
    """But for what runs again."""
    return sum(_forward(each, attention) + _backward(each, attention) for each in block.operators)


def _again(shape: ModelShape, run: Run, block: Block, attention: Attention, share: float) -> float:
    """What recomputation adds; a part of a block that runs again as a whole is not recomputed twice.

    Args:
        share: of the micro batches, those that run backward in halves: once for all activations, and once for the
            weights of each operator.
    """
    plan, needed, late = plan_of(block), shape.recomputing == "needed", turns(block)
    if not run.recompute:
        parts = ((part, 1 + share * sum(index in part for index in late)) for part in plan.parts)
        return run.count * sum(times * _part_again(plan, part, needed, attention) for part, times in parts)
    whole = sum(_forward(each, attention) for each in block.operators)
    last = sum(_forward(each, attention) for each in block.operators[: plan.needed]) if needed else whole
    groups = -(-run.count // run.recompute)
    return ((run.count - groups) * whole + groups * last) * (1 + share * run.recompute * len(late))


def _part_again(plan: Plan, part: Part, needed: bool, attention: Attention) -> float:
    """Without operators whose products' results are kept, whatever else they make again."""
    ran = again(plan, part, needed and not part.dropped)
    return sum(
        _forward(each, attention) for each in ran if not {made.name for made in each.makes} & set(part.told.saves)
    )
