"""One element of a memory: the values that the machine moves and computes at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, FORMS
from lathe.scheduler.schedule_ir.stage import VectorLayout


@dataclass(frozen=True)
class VectorType:
    """The shape of one element of a memory: values in a row of rows."""

    rows: int
    cols: int
    spread_rows: bool = True  # whether the host repeats a value along rows that no dimension fills, or puts zeros there
    spread_cols: bool = True
    innermost: int | None = None  # a dimension of which neighbours adjoin, whatever other dimensions there are
    span: int = 0  # columns of the wider ones of elements of inp and acc, and of the narrower ones
    grain: int = 0

    @property
    def lanes(self) -> int:
        return self.rows * self.cols

    def sides(self, lanes: VectorLayout) -> tuple[tuple[int | None, int], tuple[int | None, int]]:
        """The dimensions that run along rows and columns, each with the values of it that one element holds."""
        return (lanes.rows, self.rows), (lanes.cols, self.cols)

    def block(self, lanes: VectorLayout, dim: int) -> int:
        """How many values of a dimension one element holds."""
        if lanes.turns is not None and dim == lanes.cols:
            return self.span
        if lanes.is_diagonal and dim == lanes.cols:
            return min(self.rows, self.cols)
        if dim == lanes.rows:
            return self.rows
        return self.cols if dim == lanes.cols else 1

    def filled(self, extent: int) -> int:
        """The values that so many fill columns with, and what stands behind them in the last element."""
        return -(-extent // self.cols) * self.cols

    def possible_lanes(self, dims: Sequence[int]) -> Iterator[VectorLayout]:
        """All lanes that dimensions can have, those of the last in columns first."""
        for cols in (*reversed(dims), None):
            for rows in (None, *dims) if self.rows > 1 else (None,):
                if rows is None or rows != cols:
                    yield VectorLayout(rows, cols)


def element_of(config: HardwareConfig, scope: str) -> VectorType:
    """The shape of an element of a memory; what is in DRAM is stored from where it is computed.

    Columns of inp and wgt are summed over, so those without values are zeros; all others repeat the value, so that a
    tensor with no dimension along lanes is the same in all of them, however it was made. Rows of par are the lanes of
    accumulators, and its columns the two words of each; rows of a
    table adjoin, whatever else it depends on.
    """
    return _elements(config.batch, config.block_in, config.block_out)[ACC if scope == DRAM else scope]


@lru_cache(maxsize=256)
def _elements(batch: int, block_in: int, block_out: int) -> dict[str, VectorType]:
    """The shapes of elements of all memories."""
    grain, span = sorted((block_in, block_out))
    return {
        "inp": VectorType(batch, block_in, spread_cols=False, span=span, grain=grain),
        "wgt": VectorType(block_out, block_in, spread_cols=False),
        "acc": VectorType(batch, block_out, span=span, grain=grain),
        "par": VectorType(block_out, 2),
        "lut": VectorType(1, block_out, innermost=0),
    }


def whole_elements(config: HardwareConfig) -> int:
    """So many values of a dimension are whole elements of every memory, whichever side of them they run along.

    What begins at a multiple of them is an address.
    """
    return max(config.batch, config.block_in, config.block_out)


def depth_of(config: HardwareConfig, scope: str) -> int:
    """Elements of a scratchpad."""
    return FORMS[scope][0].depth(config)


def loaded_bytes(config: HardwareConfig, scope: str, dtype: str) -> int:
    """Bytes in DRAM of what a LOAD makes an element of a scratchpad from; bytes are loaded in the narrowest form."""
    narrowest, *wider = sorted(form.element_bytes(config) for form in FORMS[scope])
    return wider[-1] if wider and dtype != "int8" else narrowest
