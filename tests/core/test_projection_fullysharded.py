"""Shards of FSDP2, on numbers that can be checked by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve

from primus_core.projection.fullysharded import gathering_of, shard_of, static_of
from primus_core.projection.memory import GATHERED, WEIGHT_GRADIENTS
from primus_core.projection.places import Place, local, share
from primus_core.projection.reducing import REDUCING, SHARDS, all_reduced, reduced_of
from primus_core.projection.static import Static
from primus_core.shape import Block, DType, Group, ModelShape, Parameter, Run, Schedule, Sharding

ROWS = Parameter(name="rows", shape=(10, 3), dtype="bf16", axes=("tensor",))
EXPERTS = Parameter(name="experts", shape=(8, 6, 2), dtype="bf16", axes=("expert",), expert=True, shard_dimension=1)
COUNTS = Parameter(name="counts", shape=(5,), dtype="fp32")


def shape(
    *parameters: Parameter, groups: Mapping[Group, int] | None = None, moments: tuple[DType, ...] = ("fp32", "fp32")
) -> ModelShape:
    """Two stages; the second has two blocks of these parameters, in two chunks."""
    return ModelShape(
        groups={"pipeline": 2, **(groups or {})},
        blocks={"layer": Block(parameters=parameters, buffers=(COUNTS,)), "other": Block()},
        stages=(((Run(block="other"),),), ((Run(block="layer"),), (Run(block="other"), Run(block="layer")))),
        sharding=Sharding(scheme="fully_sharded", gradient="fp32", main="fp32", moments=moments),
        schedule=Schedule(name="1f1b", micro_batches=2),
        tokens=1,
        samples=2,
        sequence=1,
    )


@pytest.mark.parametrize(
    ("length", "ranks", "shares"), [(10, 4, [3, 3, 3, 1]), (4, 3, [2, 2, 0]), (2, 4, [1, 1, 0, 0]), (6, 1, [6])]
)
def test_shares_are_equal_but_the_last(length: int, ranks: int, shares: list[int]) -> None:
    """The last is smaller or empty, as `torch.chunk` makes them."""
    assert [share(length, ranks, index) for index in range(ranks)] == shares


def test_tensor_parallel_ranks_divide_before_shards_do() -> None:
    """Of ten rows three ranks have 4, 4 and 2; four shards of the last rank's are one row long, and two are empty."""
    divided = shape(ROWS, groups={"tensor": 3, "shard": 4})
    last = Place(at={"tensor": 2, "shard": 2})
    assert local(ROWS, divided, last) == (2, 3)
    shard = shard_of(ROWS, divided, last)
    assert (shard.whole, shard.own, shard.stored, shard.ranks) == ((2, 3), (0, 3), (1, 3), 4)


def test_experts_are_cut_among_those_that_hold_the_same() -> None:
    """Four of eight experts, whose six features three ranks of one copy divide; the other copy has the same."""
    groups: Mapping[Group, int] = {"expert": 2, "replicate": 2, "expert_data": 6, "shard": 4}
    for index in (1, 4):
        shard = shard_of(EXPERTS, shape(EXPERTS, groups=groups), Place(at={"expert": 1, "expert_data": index}))
        assert (shard.whole, shard.own, shard.ranks) == ((4, 6, 2), (4, 2, 2), 3)


def test_what_lives_through_a_step() -> None:
    """Ten rows of three on four ranks: shards of 9 elements, the last of 3 beside 6 of padding; two blocks of them."""
    sharded = shape(ROWS, groups={"shard": 4})
    buffers = 2 * 5 * 4
    assert static_of(sharded, 1) == Static(weights=72, gradients=72, moments=144, buffers=buffers)
    last = static_of(sharded, 1, Place(at={"shard": 3}))
    assert last == Static(weights=24, gradients=72, moments=48, padding=48, buffers=buffers)
    assert last.total == 24 + 72 + 48 + 48 + buffers
    assert static_of(sharded, 0) == Static()


def test_moments_have_formats_of_their_own() -> None:
    """As many as the optimizer has, each of its size."""
    assert static_of(shape(ROWS, moments=("bf16",)), 1).moments == 2 * 30 * 2


def test_what_is_gathered_and_reduced() -> None:
    """Twelve rows with padding: gathered in bf16, reduced in fp32; a rank's part is a quarter."""
    gathering = gathering_of([ROWS, ROWS], shape(ROWS, groups={"shard": 4}))
    assert (gathering.weights, gathering.sent) == (2 * 36 * 2, 2 * 9 * 2)
    assert (gathering.gradients, gathering.reduced) == (2 * 36 * 4, 2 * 9 * 4)


def test_a_tied_copy_is_gathered_and_reduced_only() -> None:
    """It has no weights and no moments of its own; its gradients come into a buffer of their own."""
    tied = Parameter(name="tied", shape=(10, 3), dtype="bf16", shared=True)
    assert static_of(shape(tied, groups={"shard": 4}), 1, Place(at={"shard": 3})) == Static(gradients=72, buffers=40)


def test_parts_of_a_sum_are_whole_until_they_are_reduced() -> None:
    """Ten rows of three, in fp32 120 bytes, of which each of two tensor parallel ranks has five. While the sum is
    divided a copy of it lives beside it, and this rank's 60 bytes, which alone are copied to the buffer."""
    divided = shape(ROWS, groups={"tensor": 2, "shard": 5})
    for partial, before in ((False, []), (True, [{WEIGHT_GRADIENTS: 120 + 120 + 60, GATHERED: 30}])):
        block = Block(parameters=(evolve(ROWS, partial=partial),))
        (one,) = reduced_of(divided, block)
        assert one.accumulated == (120 if partial else 60,)
        assert one.gradients == (one.accumulated[0] // 2,)
        *summed, copied, reduced = all_reduced([[one]])
        assert summed == before
        assert copied == {WEIGHT_GRADIENTS: 60, REDUCING: 60}
        assert reduced == {WEIGHT_GRADIENTS: 60, REDUCING: 60 + 12}
        assert SHARDS not in reduced
