"""Numbers that ranks send to each other: each tells who sent it and from which place of the message.

All follow from a hash of the place, so that no shift and no exchange of parts maps a message onto itself.
"""

from __future__ import annotations

import math

import torch

_WORD = (1 << 32) - 1
_FIRST, _SECOND, _SEED = 331804471, 889516853, 40503
"""Odd factors that are small enough for products in 64 bits."""
_BASE_BITS = 2
"""Of a digit in base 4."""
_AS_WHOLE = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
"""Whole numbers of as many bits."""


def copied(places: torch.Tensor, rank: int | torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a rank sends at places of a message that arrives as it was sent.

    Any two ranks differ at every place, for as many ranks as a type has numbers from 0 on, and with more of them in
    almost every place. None is negative or not a number.

    Args:
        places: whole numbers from 0 on; the result has their shape.
        rank: of the sender, of all places or of each.
    """
    numbers = _numbers(dtype)
    bits = (_mixed(places + rank // numbers * _SEED) + rank) % numbers
    return bits.to(_AS_WHOLE[dtype]).view(dtype)


def share(places: torch.Tensor, rank: int, world: int, dtype: torch.dtype) -> torch.Tensor:
    """What a rank adds to a sum, at places of the message.

    Ranks are in groups of `_digits`, and at each place one group adds: each of its ranks 1 or 2 in a digit of its own
    in base 4, all others 0. So each sum of some of the ranks, in any order, is exact in the type, and another one for
    other ranks.
    """
    digits = _digits(dtype)
    own = _all_digits(places, digits) & 3 << _BASE_BITS * (rank % digits)
    return torch.where(_group(places, world, digits) == rank // digits, own, 0).to(dtype)


def total(places: torch.Tensor, world: int, dtype: torch.dtype) -> torch.Tensor:
    """The sum of all ranks' shares; never 0."""
    digits = _digits(dtype)
    full, rest = divmod(world, digits)
    every = _all_digits(places, digits)
    part = every & (1 << _BASE_BITS * rest) - 1
    return torch.where(_group(places, world, digits) < full, every, part).to(dtype)


def _digits(dtype: torch.dtype) -> int:
    """How many digits in base 4 a type holds exactly: 12 in fp32, 5 in fp16, 4 in bf16."""
    return (1 - round(math.log2(torch.finfo(dtype).eps))) // _BASE_BITS


def _group(places: torch.Tensor, world: int, digits: int) -> torch.Tensor:
    """That adds at a place; they take turns."""
    return places % -(-world // digits)


def _all_digits(places: torch.Tensor, digits: int) -> torch.Tensor:
    """Numbers in base 4 of so many digits, each 1 or 2 by the hash."""
    ones = ((1 << _BASE_BITS * digits) - 1) // 3
    return (_mixed(places) & ones) + ones


def _numbers(dtype: torch.dtype) -> int:
    """How many finite numbers a type has that are not negative; their bits are those of the whole numbers from 0 on."""
    return int(torch.tensor(math.inf, dtype=dtype).view(_AS_WHOLE[dtype]))


def _mixed(places: torch.Tensor) -> torch.Tensor:
    """A hash of 32 bits: multiplications that carry upwards, and shifts that carry downwards."""
    found = places * _FIRST & _WORD
    found = (found ^ found >> 15) * _SECOND & _WORD
    return found ^ found >> 16
