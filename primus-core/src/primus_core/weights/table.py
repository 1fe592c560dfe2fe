"""How a back end's tensors are made of Hugging Face's, and what a codec tells of its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from attrs import frozen

from primus_core.checkpoints.torchfile import Tensor
from primus_core.plan import RunPlan
from primus_core.weights.architecture import Dense

Join = Literal["one", "stacked", "grouped"]
"""``one``: the same tensor; ``stacked``: parts below one another; ``grouped``: queries, keys and values of each group
of heads below one another."""


@frozen(kw_only=True)
class Weight:
    """One tensor of a back end."""

    name: str
    """In the back end's model."""
    parts: tuple[str, ...]
    """Names of the tensors at Hugging Face that it is made of."""
    join: Join = "one"
    axis: int | None = None
    """The axis of the parts that tensor-parallel ranks divide; None: each has all."""
    head_size: int = 0
    """Rows of a head, where they count."""
    pairs: bool = False
    """The rows of a head are in pairs that rotate together, not in halves."""
    rows: int | None = None
    """Rows with padding, which Hugging Face has not."""


@frozen(kw_only=True)
class Kept:
    """Where a checkpoint keeps a weight."""

    weight: Weight
    name: str
    """Of the tensor in the checkpoint."""
    layer: int | None = None
    """The part of a tensor that holds all layers; None: the tensor is the weight."""


class Codec(Protocol):
    """The object of an entry point ``primus.checkpoints``, by the name of the framework. Imports no torch."""

    def model(self, plan: RunPlan) -> Dense:
        """The model of a run.

        Raises:
            NotDense: its weights cannot be exchanged.
        """

    def checkpoints(self, folder: str) -> Mapping[int, Path]:
        """The whole checkpoints in a folder by step, the one that was written last at the end."""

    def folder(self, plan: RunPlan) -> str | None:
        """Where a run saves its checkpoints; None: nowhere."""

    def kept(self, model: Dense, tensors: Mapping[str, Tensor]) -> tuple[Kept, ...]:
        """Where a checkpoint with these tensors keeps the weights of a model, in Hugging Face's order.

        Raises:
            KeyError: a tensor is missing; its only argument is the name.
        """
