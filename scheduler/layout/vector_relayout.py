"""Stored elements that become elements of wider or narrower columns, by products that move whole parts of rows.

A store writes elements of ``out``, batch × block_out values, and a load into ``inp`` reads elements of batch × block_in
where they lie. With a batch of 1 as many of the narrower as fill the wider one adjoin. Otherwise rows lie between: of
2 × 16 values the first 2 × 8 are all 16 of row 0, where a product wants the first 8 of both rows.

Of ``B`` rows, and columns in ``q`` blocks of the narrower width, a *span* has ``B × q`` such blocks. Their numbers have
``log2 B`` bits of a row and ``log2 q`` of a block of columns, and where they lie is an order of these bits. A product
with matrices that select writes a row of what was loaded to the same row of its result, and puts the blocks of as many
elements side by side as the result is wide, or writes those of one element to as many results: the bits of the row and
those that chose among blocks change places. So after one turn, or a few, what has been stored are the elements that are
loaded. With two rows of two blocks::

    stored     row 0: a b     loaded    a    c    selected   a c    stored, loaded   a    b
               row 1: c d               b    d               b d                     c    d

Blocks that are elements of their own in DRAM, side by side, may lie there in any order: of stored elements that are the
narrower ones at first, of such that are loaded at last (``positions``). So one turn does where a row has as many blocks
as there are rows, or more.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import PhysicalAxis
from lathe.isa.layout import BROADCAST
from lathe.scheduler.layout.vector_type import VectorType
from lathe.scheduler.schedule_ir.stage import VectorLayout

Bit = tuple[str, int]
"""A bit of the number of a row or of a block of columns: which of both, and how many of these it counts."""
BitOrder = tuple[Bit, ...]
"""Bits of a place among the blocks of a span, the highest first."""


@dataclass(frozen=True)
class BlockGrid:
    """``rows`` of ``blocks`` blocks; whether stored elements are the wider ones."""

    rows: int
    blocks: int
    stores_wider: bool

    @property
    def orders(self) -> tuple[BitOrder, ...]:
        """Where blocks lie as they are stored at first, and after each turn; at last as they are loaded."""
        return _orders(self)


def spans_of(element: VectorType, stored: bool = True) -> BlockGrid:
    """The spans of an element that is stored, or else of one that is loaded."""
    wider = element.cols == element.span
    return BlockGrid(element.rows, element.span // element.grain, wider if stored else not wider)


def conversions_needed(config: HardwareConfig) -> int:
    """Turns from elements of out to those of inp: 0 where rows do not lie between, or columns are equal."""
    return len(_spans(config).orders) - 1


def positions(config: HardwareConfig) -> tuple[int, ...]:
    """By how many elements each bit of a block's number moves it in DRAM, the lowest bit first; () if by as many.

    Of narrower elements, before they are turned or when they have been.
    """
    spans = _spans(config)
    if len(spans.orders) == 1:
        return ()
    bits = [bit for bit in spans.orders[-1 if spans.stores_wider else 0] if bit[0] == "block"]
    found = tuple(1 << len(bits) - 1 - bits.index(("block", 1 << n)) for n in range(len(bits)))
    return found if found != tuple(1 << n for n in range(len(bits))) else ()


def steps_of_span(config: HardwareConfig) -> int:
    """Steps of one turn of a span: a product for each of the narrower elements, a reset for each accumulator."""
    spans = _spans(config)
    return spans.blocks + (1 if spans.stores_wider else spans.blocks)


def selection(config: HardwareConfig, turn: int) -> NDArray[np.int8]:
    """The matrices of one turn, from 1 on: (elements, block_out, block_in), of zeros and ones.

    Of several elements of inp that make one accumulator, or of several accumulators that one element of inp makes,
    one matrix each. Only the first has a 1 at (0, 0).
    """
    spans = _spans(config)
    before, after = spans.orders[turn - 1 : turn + 1]
    grain = min(config.block_in, config.block_out)
    matrices = np.zeros((spans.blocks, config.block_out, config.block_in), np.int8)
    for number in range(spans.blocks):  # of row 0 as it is loaded
        place = number * spans.rows if spans.stores_wider else number
        target = _place(_values(place, before), after)
        element, left, right = (number, target, 0) if spans.stores_wider else (target // spans.rows, 0, number)
        for lane in range(grain):
            matrices[element, left * grain + lane, right * grain + lane] = 1
    return matrices


def elements_with_rows(config: HardwareConfig, turn: int, rows: int) -> int:
    """How many of the narrower elements of a span, from the first one on, hold values in one turn, of so many rows.

    As they are loaded, where results are wider; else of those that are made.
    """
    spans = _spans(config)
    order = spans.orders[turn - 1 if spans.stores_wider else turn]
    count = 0
    for number in range(spans.blocks):
        values = _values(number * spans.rows, order)  # of its first block, which is that of the first of its rows
        if sum(weight for (kind, weight), bit in values.items() if kind == "row" and bit) < rows:
            count = number + 1
    return count


def digits(element: VectorType, lanes: VectorLayout) -> tuple[PhysicalAxis, ...]:
    """The physical axes within a span of stored elements."""
    assert lanes.turns is not None, f"elements with {lanes} are not turned"
    axes: list[PhysicalAxis] = []
    for kind, weight in spans_of(element).orders[lanes.turns]:
        dim, size = (lanes.rows, 1) if kind == "row" else (lanes.cols, element.grain)
        axes.append(PhysicalAxis(BROADCAST if dim is None else dim, weight * size if dim is not None else 1, 2))
    assert lanes.cols is not None, f"no dimension fills columns of {lanes}"
    return (*axes, PhysicalAxis(lanes.cols, 1, element.grain))


def _spans(config: HardwareConfig) -> BlockGrid:
    narrow, wide = sorted((config.block_in, config.block_out))
    return BlockGrid(config.batch, wide // narrow, config.block_out == wide)


@lru_cache(maxsize=256)
def _orders(spans: BlockGrid) -> tuple[BitOrder, ...]:
    """The fewest turns, by searching all orders of the bits; blocks in the order of their numbers where they may be."""
    rows, blocks = _bits("row", spans.rows), _bits("block", spans.blocks)
    starts, ends = [rows + blocks], [(*each, *rows) for each in permutations(blocks)]
    if not spans.stores_wider:
        starts, ends = ends, starts
    came_from: dict[BitOrder, BitOrder | None] = dict.fromkeys(starts)
    queue = deque(starts)
    while not came_from.keys() & set(ends):
        order = queue.popleft()
        if spans.stores_wider:  # elements of inp by the highest bits, rows of them by the lowest
            chosen, row = order[: len(blocks)], order[len(blocks) :]
            found = [(*row, *others) for others in permutations(chosen)]
        else:
            row, chosen = order[: len(rows)], order[len(rows) :]
            found = [(*others, *row) for others in permutations(chosen)]
        for each in found:
            if each not in came_from:
                came_from[each] = order
                queue.append(each)
    path: list[BitOrder] = []
    last: BitOrder | None = next(each for each in ends if each in came_from)
    while last is not None:
        path.insert(0, last)
        last = came_from[last]
    return tuple(path)


def _bits(kind: str, count: int) -> BitOrder:
    return tuple((kind, 1 << bit) for bit in reversed(range(count.bit_length() - 1)))


def _values(place: int, order: BitOrder) -> dict[Bit, int]:
    return {bit: place >> (len(order) - 1 - n) & 1 for n, bit in enumerate(order)}


def _place(values: dict[Bit, int], order: BitOrder) -> int:
    return sum(values[bit] << (len(order) - 1 - n) for n, bit in enumerate(order))
