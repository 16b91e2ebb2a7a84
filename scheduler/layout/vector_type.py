"""The vector type of a memory: the shape of what it holds per address, which the machine moves and computes at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, FORMS
from lathe.scheduler.schedule_ir.stage import VectorLayout


@dataclass(frozen=True)
class VectorType:
    """The shape of one vector of a memory: ``rows`` × ``cols`` values."""

    rows: int
    cols: int
    spread_rows: bool = True  # whether the host broadcasts along rows that no dimension fills, or fills in zeros
    spread_cols: bool = True
    innermost: int | None = None  # a dimension whose vectors are contiguous, whatever the other dimensions
    span: int = 0  # columns of the wider of the vectors of inp and acc
    grain: int = 0  # columns of the narrower

    @property
    def lanes(self) -> int:
        return self.rows * self.cols

    def sides(self, lanes: VectorLayout) -> tuple[tuple[int | None, int], tuple[int | None, int]]:
        """The dimensions in the rows and columns, each with the number of its values that one vector holds."""
        return (lanes.rows, self.rows), (lanes.cols, self.cols)

    def block(self, lanes: VectorLayout, dim: int) -> int:
        """How many values of a dimension one vector holds."""
        if lanes.conversions is not None and dim == lanes.cols:
            return self.span
        if lanes.is_diagonal and dim == lanes.cols:
            return min(self.rows, self.cols)
        if dim == lanes.rows:
            return self.rows
        return self.cols if dim == lanes.cols else 1

    def filled(self, extent: int) -> int:
        """An extent in the columns, rounded up to whole vectors."""
        return -(-extent // self.cols) * self.cols

    def possible_lanes(self, dims: Sequence[int]) -> Iterator[VectorLayout]:
        """All layouts that put some of the dimensions into the lanes, those with the last in the columns first."""
        for cols in (*reversed(dims), None):
            for rows in (None, *dims) if self.rows > 1 else (None,):
                if rows is None or rows != cols:
                    yield VectorLayout(rows, cols)


def vector_type_of(config: HardwareConfig, scope: str) -> VectorType:
    """The vector type of a memory; tensors in DRAM have that of ``acc``, from which they are stored.

    Columns of inp and wgt are reduced over, so unused ones are zeros; all other lanes that no dimension fills broadcast
    the value, so that they are the same however it was computed. Rows of par are the lanes of accumulators, its columns
    the two words of each; rows of a table (lut) are contiguous.
    """
    return _elements(config.batch, config.block_in, config.block_out)[ACC if scope == DRAM else scope]


@lru_cache(maxsize=256)
def _elements(batch: int, block_in: int, block_out: int) -> dict[str, VectorType]:
    """The vector types of all memories."""
    grain, span = sorted((block_in, block_out))
    return {
        "inp": VectorType(batch, block_in, spread_cols=False, span=span, grain=grain),
        "wgt": VectorType(block_out, block_in, spread_cols=False),
        "acc": VectorType(batch, block_out, span=span, grain=grain),
        "par": VectorType(block_out, 2),
        "lut": VectorType(1, block_out, innermost=0),
    }


def largest_block(config: HardwareConfig) -> int:
    """The longest side of any vector of a machine: multiples of it are vector boundaries in all memories."""
    return max(config.batch, config.block_in, config.block_out)


def depth_of(config: HardwareConfig, scope: str) -> int:
    """The capacity of a scratchpad, in vectors."""
    return FORMS[scope][0].depth(config)


def loaded_bytes(config: HardwareConfig, scope: str, dtype: str) -> int:
    """Bytes in DRAM that a LOAD reads for one vector of a scratchpad; int8 is loaded in the narrowest form."""
    narrowest, *wider = sorted(form.element_bytes(config) for form in FORMS[scope])
    return wider[-1] if wider and dtype != "int8" else narrowest
