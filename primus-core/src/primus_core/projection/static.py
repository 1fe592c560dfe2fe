"""What lives on a rank through the whole of a training step."""

from __future__ import annotations

from primus_core.records import frozen


@frozen(kw_only=True)
class Static:
    """Bytes of one rank."""

    weights: int = 0
    """That the optimizer or the forward pass works on, shared copies among them."""
    gradients: int = 0
    """Of fully sharded weights with their padding, as they come to be in a step."""
    main: int = 0
    """The optimizer's own copy of the weights, where it has one beside them."""
    moments: int = 0
    buffers: int = 0
    """Of the model: such as rotations of positions, and counters of experts."""
    padding: int = 0
    """Of the others, so that shares are equal."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.main + self.moments + self.buffers + self.padding

    def __add__(self, other: Static) -> Static:
        return Static(
            weights=self.weights + other.weights,
            gradients=self.gradients + other.gradients,
            main=self.main + other.main,
            moments=self.moments + other.moments,
            buffers=self.buffers + other.buffers,
            padding=self.padding + other.padding,
        )

    def times(self, count: int) -> Static:
        """So many of it."""
        return Static(
            weights=self.weights * count,
            gradients=self.gradients * count,
            main=self.main * count,
            moments=self.moments * count,
            buffers=self.buffers * count,
            padding=self.padding * count,
        )
