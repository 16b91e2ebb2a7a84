"""Buffers of ``inp`` without the cells that never hold data.

Between the pixels of a transposed convolution are zeros. Products leave out the taps that meet nothing else, so that no
cell is needed for these zeros: of each run of ``step`` indices the buffer holds one, as if that were a block.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import as_affine
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.expr.nodes import Select
from lathe.scheduler.layout.nonzero_analysis import data_cells
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.memories import INP
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout


@dataclass(frozen=True, slots=True)
class Gap:
    """Of indices only those hold data that leave the remainder ``at`` when divided by ``step``."""

    step: int
    at: int


Gaps = tuple[Gap | None, ...]
"""One for each dimension; empty: there are none."""


def gaps_of(stage: StageView, lanes: VectorLayout) -> Gaps:
    """For each dimension of what a stage loads the gap between its data.

    Only what nothing but products read is kept without gaps, whose rule leaves zeros out, and neither what stays from
    one iteration of a loop to the next nor what is in cells of the user's choice.
    """
    state = stage.state
    if state.scope != INP or state.storage is not None or state.reuse is not None or lanes.turns is not None:
        return ()
    if len(state.computation.bodies) > 1 or not isinstance(skip_casts(state.computation.bodies[0]), Select):
        return ()
    readers = stage.schedule.readers(state.tensor)
    if state.pragma not in (None, "dma") or not readers or not all(map(_leaves_zeros_out, readers)):
        return ()
    cells = data_cells(state.computation, lambda _: None) or ()
    found = tuple(None if held is None or dim in lanes.dims else _gap(held) for dim, held in enumerate(cells))
    return found if any(found) else ()


def _leaves_zeros_out(reader: StageView) -> bool:
    """Whether a stage sums products, by the rule that is the machine's, at places that are linear."""
    computation = reader.state.computation
    linear = all(as_affine(index) is not None for read in computation.reads for index in read.indices)
    return reader.state.pragma in (None, "gemm") and match_gemm_operands(computation) is not None and linear


def _gap(held: bytes) -> Gap | None:
    """The gap of a dimension of which these indices hold data."""
    indices = np.flatnonzero(np.frombuffer(held, np.bool_))
    step = int(np.gcd.reduce(np.diff(indices))) if len(indices) > 1 else 0
    return Gap(step, int(indices[0]) % step) if step > 1 else None


def without_cells(gaps: Gaps, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which elements of a tensor, in row-major order, have no cell: zeros, which nobody reads."""
    missing = np.zeros(shape, np.bool_)
    for dim, gap in enumerate(gaps):
        if gap is not None:
            missing |= np.expand_dims(
                np.arange(shape[dim]) % gap.step != gap.at, tuple(n for n in range(len(shape)) if n != dim)
            )
    return missing.reshape(-1)
