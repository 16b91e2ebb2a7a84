"""Compaction of ``inp`` buffers: zeros between the pixels of a dilated input (transposed convolution) take no space.

GEMM skips the taps that read only these zeros (``skip_padding_taps.py``), so the buffer stores one of each ``step``
consecutive indices: a block of ``step`` indices takes one vector.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import as_affine
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.expr.nodes import Select
from lathe.scheduler.layout.nonzero_analysis import nonzero_masks
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.memories import INP
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout


@dataclass(frozen=True, slots=True)
class Gap:
    """The stride of the data in one dimension: index ``i`` holds data only if ``i % step == at``."""

    step: int
    at: int


Gaps = tuple[Gap | None, ...]
"""One per dimension; empty if no dimension is dilated."""


def dilation_of(stage: StageView, lanes: VectorLayout) -> Gaps:
    """The dilation of each dimension of a tensor loaded into ``inp``, or () if its buffer is not compacted.

    Compacted are only buffers that GEMMs of the built-in rule alone read, without ``reuse_at`` or ``store_in``.
    """
    state = stage.state
    if state.scope != INP or state.storage is not None or state.reuse is not None or lanes.conversions is not None:
        return ()
    if len(state.computation.bodies) > 1 or not isinstance(skip_casts(state.computation.bodies[0]), Select):
        return ()
    consumers = stage.schedule.consumers(state.tensor)
    if state.pragma not in (None, "dma") or not consumers or not all(map(_skips_zeros, consumers)):
        return ()
    cells = nonzero_masks(state.computation, lambda _: None) or ()
    gaps = tuple(None if held is None or dim in lanes.dims else _gap(held) for dim, held in enumerate(cells))
    return gaps if any(gaps) else ()


def _skips_zeros(consumer: StageView) -> bool:
    """Whether a stage is a GEMM emitted by the built-in rule whose operands have affine indices."""
    computation = consumer.state.computation
    linear = all(as_affine(index) is not None for read in computation.reads for index in read.indices)
    return consumer.state.pragma in (None, "gemm") and match_gemm_operands(computation) is not None and linear


def _gap(held: bytes) -> Gap | None:
    """The dilation of a dimension, from the mask of the indices that hold data; None if it is dense."""
    indices = np.flatnonzero(np.frombuffer(held, np.bool_))
    step = int(np.gcd.reduce(np.diff(indices))) if len(indices) > 1 else 0
    return Gap(step, int(indices[0]) % step) if step > 1 else None


def without_cells(gaps: Gaps, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Mask of the scalar elements of a tensor, in row-major order, that a compacted buffer does not store."""
    missing = np.zeros(shape, np.bool_)
    for dim, gap in enumerate(gaps):
        if gap is not None:
            missing |= np.expand_dims(
                np.arange(shape[dim]) % gap.step != gap.at, tuple(n for n in range(len(shape)) if n != dim)
            )
    return missing.reshape(-1)
