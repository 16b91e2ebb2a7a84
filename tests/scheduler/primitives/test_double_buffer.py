"""``double_buffer``: double buffering on request, seen in the trace; or none, on request."""

import numpy as np
import pytest
from documented import as_documented
from error_checks import check_mentions
from nests import check, text
from queues import TINY, Tiles, overlap, ran, stage_in_tiles

from lathe.frontend import reference
from lathe.isa import Gemm, Load, MemoryType, Store
from lathe.scheduler import CapacityError, build
from lathe.scheduler.primitives.double_buffer import double_buffer
from lathe.sim import Result


def places(result: Result) -> list[int]:
    """The scratchpad addresses of loads of inp, in order."""
    assert result.trace is not None
    loads = [each for each in result.trace.stream if isinstance(each, Load) and each.memory_type == MemoryType.INP]
    return [load.sram_base for load in loads if load.x_size]


def places_in_acc(result: Result) -> tuple[int, int]:
    """The number of locations where tiles are reset (by their micro-ops), and from which they are stored.

    Without the end of the stream, where the last tile is computed and stored in slices.
    """
    assert result.trace is not None
    stream = result.trace.stream
    stream = stream[: max(n for n, each in enumerate(stream) if isinstance(each, Load) and each.x_size)]
    resets = {each.uop_bgn for each in stream if isinstance(each, Gemm) and each.reset}
    return len(resets), len({each.sram_base for each in stream if isinstance(each, Store)})


def test_documentation_shows_before_and_after():
    B, C, s = stage_in_tiles()
    with as_documented(double_buffer, s):
        s[B].double_buffer()
    check(s)


def test_order_shows_the_request_and_none_takes_it_back():
    tiles = Tiles()
    s = tiles.schedule
    s[tiles.rows].double_buffer()
    assert "A.inp: @double_buffer 2\n" in text(s, "order")
    s[tiles.rows].double_buffer(None)
    assert "@double_buffer" not in text(s, "order")


def test_loads_overlap_products_with_two_buffers_and_never_with_one():
    alone, turns = Tiles(parts=8), Tiles(parts=8)
    alone.schedule[alone.rows].double_buffer(1)
    turns.schedule[turns.rows].double_buffer(2)
    slow, fast = ran(alone), ran(turns)
    assert overlap(slow) == 0
    assert overlap(fast) > 0.9 * (64 // 8 * 8 - 1) * 8  # each load but the first, of at least 8 vectors
    assert fast.cycles < slow.cycles
    np.testing.assert_array_equal(fast.outputs["D"], slow.outputs["D"])
    np.testing.assert_array_equal(fast.outputs["D"], reference(turns.D, turns.inputs()))


@pytest.mark.parametrize("rows", [64, 60, 56, 8, 12])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_buffers_take_turns_in_any_number_of_tiles(rows, copies):
    tiles = Tiles(rows)
    tiles.schedule[tiles.rows].double_buffer(copies)
    used = places(ran(tiles))
    size = 8 * 32 // 4
    assert used == [n % copies * size for n in range(-(-rows // 8))]


def test_without_the_command_there_are_two_where_there_is_room():
    tiles = Tiles()
    assert places(ran(tiles)) == [n % 2 * 64 for n in range(8)]


def test_a_stage_that_takes_over_the_cells_of_another_takes_turns_with_them():
    tiles = Tiles()
    s = tiles.schedule
    s[tiles.made].double_buffer(1)
    assert places_in_acc(ran(tiles)) == (1, 1)


def test_one_buffer_each_for_different_wishes():
    tiles = Tiles(rows=32)
    s = tiles.schedule
    tiles.halves()
    s[tiles.C].double_buffer(2)
    s[tiles.made].double_buffer(1)
    assert places_in_acc(ran(tiles)) == (3, 1)  # two of C, and one that D.acc is copied to


def test_more_copies_than_there_is_room_for_are_refused_with_sizes():
    tiles = Tiles()
    tiles.schedule[tiles.C].double_buffer(3)
    with pytest.raises(CapacityError) as caught:
        build(tiles.schedule, [tiles.A, tiles.B, tiles.D], TINY)
    check_mentions(caught.value, "acc", 256, 384, "C 128 × 3", 128, "C 85", "8×64", "double_buffer(1)")
    assert (caught.value.scope, caught.value.excess) == ("acc", 128)
