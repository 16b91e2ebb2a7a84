"""Depthwise products as GEMM with diagonal weights.

``D[.., c] += X[.., c] * W[.., c]`` reduces nothing over channels, so that as a plain GEMM it would use one lane. But it
equals ``sum over k of X[.., k] * V[.., c, k]`` with ``V[.., c, k] = W[.., c]`` where ``k = c`` and 0 elsewhere. The
host CPU builds the diagonals when it packs the weights (``isa.Diagonal``), so the weights must be program inputs.

A weight vector holds as many values as the shorter side of its matrix. If a block of the result has more columns than
one of the data, several weight and data vectors fill it; if it has fewer, each weight vector uses a slice of the data.
"""

from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor
from lathe.scheduler.layout.match_gemm import (
    GemmMatch,
    KnownLanes,
    ProducerLookup,
    SequentialAxes,
    axes_of_made_lanes,
    best_axis,
    copied,
    only_in,
    possible_axes,
)
from lathe.scheduler.layout.vector_type import largest_block, vector_type_of
from lathe.scheduler.rewriting.matchers import dim_indexed_by, match_gemm_operands
from lathe.scheduler.schedule_ir.memories import DRAM, INP, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout


def match_depthwise(
    computation: Computation,
    config: HardwareConfig,
    schedule: ProducerLookup,
    known: KnownLanes,
    result: VectorLayout | None,
    sequential: SequentialAxes,
) -> GemmMatch | None:
    """Match a computation as GEMM with diagonal weights, or None; arguments as for ``match_gemm``.

    The weights are the operand that is a program input; if both are, the one with fewer values, or else the second.
    """
    pair = match_gemm_operands(computation)
    if pair is None:
        return None
    data_element, step = vector_type_of(config, INP), largest_block(config)
    may_be_rows, may_be_columns = possible_axes(computation, sequential)
    for weight, data in sorted((pair[::-1], pair), key=lambda each: prod(each[0].tensor.shape)):
        if not is_given(weight.tensor, schedule) or not _may_be_in(data.tensor, INP, schedule):
            continue
        both = [
            axis
            for axis in may_be_columns
            if all(dim_indexed_by(read, axis, step) is not None for read in (data, weight))
        ]
        columns = axes_of_made_lanes(computation, both, result, "cols")
        rows = axes_of_made_lanes(computation, only_in(may_be_rows, data, weight, step), result, "rows")
        if not columns or (rows is None and data_element.rows > 1):
            continue
        before = known.get(data.tensor)
        column, _ = best_axis(
            columns, data_element.cols, data, step, None if before is None else before.cols, strict=before is not None
        )
        along = before.rows if before is not None and data_element.rows > 1 else None
        row, _ = best_axis(rows or [], data_element.rows, data, step, along)
        if column is not None and column.extent > 1:
            return GemmMatch(data, weight, row, column, column, diagonal=True)
    return None


def is_given(tensor: Tensor, schedule: ProducerLookup) -> bool:
    """Whether a tensor is a program input, or an unchanged copy of one in ``wgt``."""
    stage = schedule.producer(tensor)
    if stage is None:
        return True
    source = copied(stage.state.computation)
    return stage.state.scope == WGT and source is not None and schedule.producer(source) is None


def _may_be_in(tensor: Tensor, scope: str, schedule: ProducerLookup) -> bool:
    """Whether a tensor is in a scratchpad, or in DRAM, from where it can be loaded."""
    return schedule.scope_of(tensor) in (scope, DRAM)
