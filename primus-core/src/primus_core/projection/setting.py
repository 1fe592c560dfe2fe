"""How one pass over a block runs, and what is known of it then."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.projection.memory import Moment
from primus_core.records import frozen


@frozen(kw_only=True)
class Pass:
    """One pass over a block."""

    most: Moment
    """Of all that is the block's own at that moment: its input among it, unless that is told to be nothing."""
    left: Mapping[str, int]
    """What stays afterwards; of a forward pass without the output, unless the block itself keeps it."""
    output: int = 0
    """Bytes that the next block reads; of a backward pass, of the gradient of the input."""
    owns_output: bool = False
    """The output is among what the block keeps."""


@frozen(kw_only=True)
class Setting:
    """How a block runs.

    Attributes:
        source: bytes of its input; 0 where another block keeps it anyway.
        gradient: bytes of the gradient of its input; 0: none is made.
        weights: bytes of each weight's gradient.
        holds_weights: their gradients stay until the block has run backward, and longer.
        lent: bytes of weights that are gathered for another block: in the forward pass until the loss, in the backward
            pass from after it.
        sent: the most beside them in the backward pass, while they are gathered.
        whole: recomputed parts run again to their end.
        holds_output: what they make then is held until they have run backward.
        keeps_all: nothing that was kept is freed, because the gradients of weights come later, and what these are
            computed from stays.
        holds_gradient: the gradient of its output stays until it has run backward.
        buffered: that gradient is in a buffer that lives anyway.
    """

    source: int = 0
    gradient: int = 0
    weights: tuple[tuple[str, int], ...] = ()
    holds_weights: bool = False
    lent: int = 0
    sent: int = 0
    whole: bool = True
    holds_output: bool = True
    keeps_all: bool = False
    holds_gradient: bool = False
    buffered: bool = False
