"""Exact regions: the cells of a stage that an iteration reads, or those of them that no earlier iteration has computed.

``compute_at`` computes a box unless its region is ``"exact"`` or ``"missing"``. Then the cells are those of an isl map,
cut into disjoint pieces, each a conjunction of conditions on loops. (Tiramisu's missing = needed − produced, with what
earlier iterations have produced.)
"""

import islpy as isl

from lathe.frontend.arith.linear import Bound, Linear
from lathe.frontend.arith.quasi_affine import linear_of
from lathe.scheduler.loop_ir.active_iterations import executed_iterations
from lathe.scheduler.loop_ir.instances import cells_read
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.query_results import answerable
from lathe.scheduler.schedule_ir.schedule_state import StageView


def pieces_of(placement: StageRegion, placed: dict[StageView, StageRegion]) -> list[list[Linear]]:
    """The groups of conditions on loops, no two of which hold at once, under which an instance is computed."""
    with answerable(f"which cells of {placement.stage.name} an iteration needs"):
        return _pieces(placement, placed)


def _pieces(placement: StageRegion, placed: dict[StageView, StageRegion]) -> list[list[Linear]]:
    stage, depth = placement.stage, len(placement.prefix)
    needed: isl.Map | None = None
    for consumer, there in placed.items():
        around = [*there.prefix, *there.loops.variables]
        if consumer is stage or around[:depth] != placement.prefix:
            continue
        reads = [read for read in consumer.state.computation.reads if read.tensor in stage.state.tensors]
        if reads:  # an iteration that is skipped needs nothing, and computes nothing that later ones could rely on
            executed = executed_iterations(there, placed)
            for read in reads:
                cells = cells_read(there, read, depth, executed)
                cells = cells.set_tuple_name(isl.dim_type.in_, "loops").set_tuple_name(isl.dim_type.out, "cells")
                needed = cells if needed is None else needed.union(cells)
    if needed is None:
        return [[]]
    attachment = stage.state.attachment
    assert attachment is not None
    if attachment.region == "missing":
        earlier = isl.Map.lex_gt(needed.get_space().domain())
        needed = needed.subtract(earlier.apply_range(needed))
    inputs: list[Linear] = [Linear.of(variable) for variable in placement.prefix]
    roots = placement.roots()
    for axis in stage.state.computation.axes:
        value: Bound = roots[axis]
        assert isinstance(value, Linear), f"{axis.name} of {stage.name} is {value}, a choice"
        inputs.append(value)
    pieces = []
    disjoint = needed.coalesce().compute_divs().make_disjoint()
    for piece in disjoint.wrap().flatten().get_basic_sets():
        conditions: list[Linear] = []
        for constraint in piece.remove_redundancies().get_constraints():
            value = linear_of(constraint.get_aff(), inputs)
            conditions += [value, value * -1] if constraint.is_equality() else [value]
        pieces.append([each for each in conditions if each.range(placement.box)[0] < 0])
    return pieces
