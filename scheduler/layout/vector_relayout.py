"""Layout conversion by permutation GEMMs, from stored vectors to loadable vectors with wider or narrower columns.

A store writes vectors of ``out``, batch × block_out values; a load into ``inp`` reads vectors of batch × block_in. With
a batch of 1, the narrow vectors that fill a wide one are contiguous. Otherwise rows come in between: the first 2 × 8 of
2 × 16 stored values are all 16 of row 0, whereas GEMM needs the first 8 of both rows.

A *span* is ``B`` rows × ``q`` blocks of columns (of the narrower width): one wide vector. A block's number has ``log2
B`` row bits and ``log2 q`` block bits, and the memory order of the blocks is an order of these bits. One conversion
(turn) loads a span, multiplies it with selection matrices, and stores it. GEMM keeps the row of each value, and either
concatenates one block each of several vectors, or distributes the blocks of one vector over several results: the row
bits and the bits that chose among blocks change places. After one turn or a few, stored vectors are loadable ones. With
two rows of two blocks::

    stored     row 0: a b     loaded    a    c    selected   a c    stored, loaded   a    b
               row 1: c d               b    d               b d                     c    d

Narrow vectors have addresses of their own in DRAM, so that they can be stored (if ``out`` is narrower), or in the end
loaded (if ``inp`` is), in any order of their blocks (``positions``). So one turn is enough if a row has no fewer blocks
than there are rows.
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
"""A bit of the number of a row or block of columns: ("row" or "block", the bit's weight)."""
BitOrder = tuple[Bit, ...]
"""The memory order of the blocks of a span: which bit of their number each bit of their offset is, highest first."""


@dataclass(frozen=True)
class BlockGrid:
    """The blocks of a span, ``rows`` × ``blocks``; ``stores_wider``: whether stored vectors are the wide ones."""

    rows: int
    blocks: int
    stores_wider: bool

    @property
    def orders(self) -> tuple[BitOrder, ...]:
        """The memory orders as stored at first and after each turn; the last one is loadable."""
        return _orders(self)


def spans_of(element: VectorType, stored: bool = True) -> BlockGrid:
    """The span of a stored (or loaded) vector type."""
    wider = element.cols == element.span
    return BlockGrid(element.rows, element.span // element.grain, wider if stored else not wider)


def conversions_needed(config: HardwareConfig) -> int:
    """Turns that convert vectors of ``out`` to vectors of ``inp``; 0 with a batch of 1 or equal widths."""
    return len(_spans(config).orders) - 1


def positions(config: HardwareConfig) -> tuple[int, ...]:
    """The offset in DRAM, in vectors, that each bit of a narrow vector's block number adds, lowest bit first.

    () if they are in order. It applies before the first turn or after the last, where the vectors are narrow.
    """
    spans = _spans(config)
    if len(spans.orders) == 1:
        return ()
    bits = [bit for bit in spans.orders[-1 if spans.stores_wider else 0] if bit[0] == "block"]
    offsets = tuple(1 << len(bits) - 1 - bits.index(("block", 1 << n)) for n in range(len(bits)))
    return offsets if offsets != tuple(1 << n for n in range(len(bits))) else ()


def conversion_cycles_of_span(config: HardwareConfig) -> int:
    """Cycles of one turn of a span: a GEMM micro-op for each narrow vector, and a reset for each accumulator."""
    spans = _spans(config)
    return spans.blocks + (1 if spans.stores_wider else spans.blocks)


def selection(config: HardwareConfig, turn: int) -> NDArray[np.int8]:
    """The 0/1 selection matrices of a turn (numbered from 1): (narrow vectors, block_out, block_in).

    One for each vector of inp that goes into an accumulator, or for each accumulator that a vector of inp goes to. Only
    the first has a 1 at (0, 0).
    """
    spans = _spans(config)
    before, after = spans.orders[turn - 1 : turn + 1]
    grain = min(config.block_in, config.block_out)
    matrices = np.zeros((spans.blocks, config.block_out, config.block_in), np.int8)
    for number in range(spans.blocks):  # blocks of row 0, as loaded
        place = number * spans.rows if spans.stores_wider else number
        target = _place(_values(place, before), after)
        element, left, right = (number, target, 0) if spans.stores_wider else (target // spans.rows, 0, number)
        for lane in range(grain):
            matrices[element, left * grain + lane, right * grain + lane] = 1
    return matrices


def vectors_with_rows(config: HardwareConfig, turn: int, rows: int) -> int:
    """How many narrow vectors of a span, from the first on, hold any of the first ``rows`` rows in a turn.

    The narrow vectors are those loaded if results are wider, else the results.
    """
    spans = _spans(config)
    order = spans.orders[turn - 1 if spans.stores_wider else turn]
    count = 0
    for number in range(spans.blocks):
        values = _values(number * spans.rows, order)  # of its first block, in its first row
        if sum(weight for (kind, weight), bit in values.items() if kind == "row" and bit) < rows:
            count = number + 1
    return count


def digits(element: VectorType, lanes: VectorLayout) -> tuple[PhysicalAxis, ...]:
    """The physical axes within a span of stored vectors."""
    assert lanes.conversions is not None, f"{lanes} is not permuted"
    axes: list[PhysicalAxis] = []
    for kind, weight in spans_of(element).orders[lanes.conversions]:
        dim, size = (lanes.rows, 1) if kind == "row" else (lanes.cols, element.grain)
        axes.append(PhysicalAxis(BROADCAST if dim is None else dim, weight * size if dim is not None else 1, 2))
    assert lanes.cols is not None, f"no dimension fills columns of {lanes}"
    return (*axes, PhysicalAxis(lanes.cols, 1, element.grain))


def _spans(config: HardwareConfig) -> BlockGrid:
    narrow, wide = sorted((config.block_in, config.block_out))
    return BlockGrid(config.batch, wide // narrow, config.block_out == wide)


@lru_cache(maxsize=256)
def _orders(spans: BlockGrid) -> tuple[BitOrder, ...]:
    """The shortest sequence of turns, by breadth-first search over bit orders, which prefers block bits in order."""
    rows, blocks = _bits("row", spans.rows), _bits("block", spans.blocks)
    starts, ends = [rows + blocks], [(*each, *rows) for each in permutations(blocks)]
    if not spans.stores_wider:
        starts, ends = ends, starts
    came_from: dict[BitOrder, BitOrder | None] = dict.fromkeys(starts)
    queue = deque(starts)
    while not came_from.keys() & set(ends):
        order = queue.popleft()
        if spans.stores_wider:  # the highest bits number vectors of inp, the lowest their rows
            chosen, row = order[: len(blocks)], order[len(blocks) :]
            successors = [(*row, *others) for others in permutations(chosen)]
        else:
            row, chosen = order[: len(rows)], order[len(rows) :]
            successors = [(*others, *row) for others in permutations(chosen)]
        for each in successors:
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
