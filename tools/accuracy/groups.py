"""What is compared, and by which program."""

from __future__ import annotations

from typing import Literal

from attrs import frozen


@frozen(kw_only=True)
class Group:
    """Comparisons of one kind.

    Each program prints one JSON map a line: ``model``, ``layout``, ``projected``, ``measured`` (numbers, or null with a
    ``note``), and as it likes ``figures`` (names of what was summed up), ``ranks``, ``differences`` and ``note``.
    """

    title: str
    what: str
    """One sentence: what is compared with what."""
    module: str
    unit: Literal["bytes", "parameters", "FLOPs a token"]
    allowed: float
    """Percent by which a row may differ."""


GROUPS = (
    Group(
        title="TorchTitan: weights, gradients and optimizer",
        what="TorchTitan's own model, sharded by its own code on the meta device under a fake process group: every "
        "preset and four small models, in up to ten layouts each; on all ranks that were looked at together.",
        module="tests.torchtitan.truth.accuracy",
        unit="bytes",
        allowed=0.0,
    ),
    Group(
        title="Megatron: weights, gradients and optimizer",
        what="Megatron's own model with its own optimizer on the meta device under a fake process group: every preset "
        "and three small models, in six layouts or more each.",
        module="tests.megatron.truth.accuracy",
        unit="bytes",
        allowed=0.0,
    ),
    Group(
        title="TorchTitan: peak of a training step",
        what="The most that lives at once in TorchTitan's own training step under fake tensors: in its passes beside "
        "what lives before them, and while its optimizer works, all included.",
        module="tests.torchtitan.truth.live_accuracy",
        unit="bytes",
        allowed=2.0,
    ),
    Group(
        title="Megatron: peak of a training step",
        what="The most that lives at once in Megatron's own training step under fake tensors: in its passes beside "
        "what lives before them, and while its optimizer works, all included.",
        module="tests.megatron.truth.live_accuracy",
        unit="bytes",
        allowed=2.0,
    ),
    Group(
        title="Real training on CPUs",
        what="The most bytes by the events of PyTorch's allocator over a whole training through Primus, all included, "
        "on each of its ranks.",
        module="tests.truth.real_accuracy",
        unit="bytes",
        allowed=2.0,
    ),
    Group(
        title="FLOPs of a training step",
        what="PyTorch's FlopCounterMode over the libraries' own steps, and published results that state both figures.",
        module="tests.core.flops_accuracy",
        unit="FLOPs a token",
        allowed=0.5,
    ),
)
