"""What is compared, and by which program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen


@frozen
class Limits:
    """How far a projected figure may be from the measured one, in percent of it: too low is worse than too high."""

    below: float
    above: float

    def allow(self, error: float) -> bool:
        """Whether a signed error in percent is within them."""
        return -self.below <= error <= self.above

    def __str__(self) -> str:
        return f"-{self.below:g} … +{self.above:g} %" if self.below or self.above else "0 %"


@frozen(kw_only=True)
class Group:
    """Comparisons of one kind.

    Each program prints one JSON map a line: ``model``, ``layout``, ``projected``, ``measured`` (numbers, or null with a
    ``note``), and as it likes ``figures`` (names of what was summed up), ``ranks``, ``differences`` and ``note``, which
    excuses nothing but a figure that could not be measured.
    """

    title: str
    what: str
    """One sentence: what is compared with what."""
    module: str
    unit: Literal["bytes", "FLOPs", "FLOPs a token"]
    allowed: Limits
    exceptions: Mapping[str, Limits | None] = field(factory=dict, hash=False)
    """Models whose measured figure has something else in it, which the note of their rows tells: limits of their own,
    or None where there is nothing to project."""

    def limits(self, model: str) -> Limits | None:
        """Of the rows of a model."""
        return self.exceptions.get(model, self.allowed)


EXACT = Limits(0, 0)
STEPS = Limits(1, 2)
FLOPS = Limits(0.5, 0.5)
GROUPS = (
    Group(
        title="TorchTitan: weights, gradients and optimizer",
        what="TorchTitan's own model, sharded by its own code on the meta device under a fake process group: every "
        "preset and four small models, in six layouts or more each; on all ranks that were looked at together.",
        module="tests.torchtitan.truth.accuracy",
        unit="bytes",
        allowed=EXACT,
    ),
    Group(
        title="Megatron: weights, gradients and optimizer",
        what="Megatron's own model with its own optimizer on the meta device under a fake process group: every preset "
        "and three small models, in six layouts or more each; on all ranks that were looked at together.",
        module="tests.megatron.truth.accuracy",
        unit="bytes",
        allowed=EXACT,
    ),
    Group(
        title="TorchTitan: peak of a training step",
        what="The most that lives at once in TorchTitan's own training step under fake tensors: in its passes beside "
        "what lives before them, and while its optimizer works, all included.",
        module="tests.torchtitan.truth.live_accuracy",
        unit="bytes",
        allowed=STEPS,
    ),
    Group(
        title="Megatron: peak of a training step",
        what="The most that lives at once in Megatron's own training step under fake tensors: in its passes beside "
        "what lives before them, and while its optimizer works, all included.",
        module="tests.megatron.truth.live_accuracy",
        unit="bytes",
        allowed=STEPS,
    ),
    Group(
        title="Real training on CPUs",
        what="The most bytes by the events of PyTorch's allocator over a whole training through Primus, all included, "
        "on each of its ranks.",
        module="tests.truth.real_accuracy",
        unit="bytes",
        allowed=STEPS,
        exceptions={
            "Megatron: experts": Limits(2, 2),
            "Megatron: tensor and sequence parallel": Limits(15, 2),
            "TorchTitan: never resharded": Limits(20, 2),
            "TorchTitan: tensor and sequence parallel": Limits(15, 2),
        },
    ),
    *(
        Group(
            title=f"{library}: FLOPs of a training step",
            what="PyTorch's FlopCounterMode over one rank's own training step under fake tensors: all that runs, of "
            "whole attention, with what is recomputed or repeated on several ranks.",
            module=f"tests.{library.lower()}.truth.flops_accuracy",
            unit="FLOPs",
            allowed=FLOPS,
        )
        for library in ("TorchTitan", "Megatron")
    ),
    Group(
        title="FLOPs that published results imply",
        what="Published results that state tokens and floating-point operations a second.",
        module="tests.core.flops_accuracy",
        unit="FLOPs a token",
        allowed=FLOPS,
        exceptions={
            "gpt-oss-20b": Limits(0, 15),
            "gpt-oss-120b": Limits(0, 30),
            "llama3.1-70b": Limits(15, 0),
            "llama-1b": None,
        },
    ),
)
