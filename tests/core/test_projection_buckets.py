"""Shared buffers are laid out as Megatron lays them out; lengths by hand."""

from __future__ import annotations

from primus_core.projection.buckets import Piece, Sharing, divided, whole


def pieces(*sizes: int) -> list[Piece]:
    return [Piece(elements=size) for size in sizes]


def sharing(ranks: int, index: int = 0, limit: int | None = None) -> Sharing:
    return Sharing(ranks=ranks, index=index, multiple=128, limit=limit)


def test_tensors_start_at_multiples_of_64_and_buckets_end_at_multiples_of_ranks() -> None:
    """100 elements at 0, 10 at 128: 138, up to 384 for three ranks; of the second third the first 10 are a tensor's."""
    found = [divided(pieces(10, 100), sharing(3, index)) for index in range(3)]
    assert {one.elements for one in found} == {384}
    assert [one.owned for one in found] == [100, 10, 0]


def test_a_bucket_ends_with_the_tensor_that_fills_it() -> None:
    """From the last registered on: 300 alone, up to 384, then 64 and 5 in one of 128."""
    assert divided(pieces(5, 64, 300), sharing(2, limit=200)).elements == 384 + 128
    owned = [divided(pieces(5, 64, 300), sharing(2, index, limit=200)).owned for index in (0, 1)]
    assert owned == [192 + 64, 108 + 5]


def test_a_tensor_apart_has_its_own_bucket() -> None:
    """Between two others there are three buckets of 128 instead of one of 256."""
    alone = [Piece(elements=10), Piece(elements=10, apart=True), Piece(elements=10)]
    assert divided(alone, sharing(1)).elements == 3 * 128
    assert divided(pieces(10, 10, 10), sharing(1)).elements == 256


def test_what_nobody_shares_has_no_padding() -> None:
    buffer = whole(pieces(5, 64, 300))
    assert (buffer.elements, buffer.owned) == (369, 369)
