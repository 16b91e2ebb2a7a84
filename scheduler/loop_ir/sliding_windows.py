"""Reuse buffers (sliding windows): values stay in a buffer over iterations of a loop, and only new ones are fetched.

In each iteration a consumer needs a box. Where the box moves along one dimension, an iteration lacks only a slab at its
front: from where the box of the previous iteration ended, or all of the box in the first iteration. With ``v`` the
loop, counted from 0, and ``M`` at least as large as the box, that slab begins at

    max(low(v), min(high(v - 1) + 1, low(v) + M * v))

which is one bound like those of any other box, so that partitioning, legality and bounds inference need no special
case. Reuse buffers, and the inference of their shapes, are HeteroCL's.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

from lathe.frontend.arith.linear import (
    Bound,
    Box,
    Linear,
    LoopVariable,
    add,
    at_most,
    bound_range,
    bound_substitute,
    bound_value,
    bound_variables,
    extremum,
    scale,
)
from lathe.frontend.arith.loop_bounds import Interval
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.bounds_inference import extent_of

REUSE_FORMS = ("ring", "shift")

MOST_POINTS = 2048
"""The most points at which bounds may be evaluated to see where a window moves."""


@dataclass(frozen=True)
class Window:
    """The box that a reuse buffer holds, as bounds; it moves along ``dimension``; ``shape`` is its largest extent."""

    low: list[Bound]
    extent: list[Bound]
    dimension: int
    shape: tuple[int, ...]
    advance: int  # by how much it moves at most


@dataclass(frozen=True)
class Ring:
    """A window as a ring buffer: along ``dimension``, cell ``c`` is stored at ``c`` modulo the number of cells.

    ``shape`` and ``advance`` are the window's along that dimension. Vectors hold ``block`` of its cells; a vector that
    is overwritten must not hold cells that are still in the window.
    """

    dimension: int
    shape: int
    advance: int
    block: int

    def cells(self, slots: int) -> int:
        """The number of cells: whole blocks for the window, and for the next slab of each slot but the first."""
        least = self.shape + (slots - 1) * self.advance + self.block - 1
        return -(-least // self.block) * self.block


def sliding_window(
    name: str, needed: list[Interval], loop: LoopVariable, box: Box, first: int
) -> tuple[list[Interval], Window]:
    """The slab that a reuse buffer fetches in an iteration of its loop, and the window that it holds then.

    Consumers read it from iteration ``first`` on; in warm-up iterations before, its window is limited to cells that are
    in that of ``first``. Raises ScheduleError if the needed box does not move along one dimension, in one direction.
    """
    moving = [d for d, ends in enumerate(needed) if any(loop in bound_variables(end) for end in ends)]
    if len(moving) > 1:
        raise ScheduleError(
            f"window of reuse buffer {name} must move along one dimension from one iteration of loop {loop.name} to "
            f"the next, not along dimensions {', '.join(map(str, moving))}. Reuse at a loop that moves one of them.",
            kind="limit",
        )
    d = moving[0] if moving else 0

    def at(bound: Bound, iteration: Linear) -> Bound:
        return bound_substitute(bound, lambda v: iteration if v is loop else None)

    low, high = needed[d]
    before, after_first = Linear.of(loop) - 1, {**box, loop: (1, max(loop.extent - 1, 1))}
    upwards = never_above(at(low, before), low, after_first) and never_above(at(high, before), high, after_first)
    downwards = never_above(low, at(low, before), after_first) and never_above(high, at(high, before), after_first)
    if upwards and first:
        low = extremum("max", [low, at(low, Linear(first))], box)
    elif downwards and first:
        high = extremum("min", [high, at(high, Linear(first))], box)
    held = [*needed[:d], (low, high), *needed[d + 1 :]]
    extents = [extent_of(interval, box) for interval in held]
    shape = tuple(max(bound_range(extent, box)[1], 1) for extent in extents)
    offset = Linear.of(loop, shape[d])
    slab = list(held)
    if not moving:  # the same cells in every iteration, as in a loop of one
        slab[d] = (add(low, offset), high)
        advance_by: Bound = Linear(0)
    elif upwards:
        begin = extremum("min", [add(at(high, before), Linear(1)), add(low, offset)], box)
        slab[d] = (extremum("max", [low, begin], box), high)
        advance_by = add(high, scale(at(high, before), -1))
    elif downwards:
        end = extremum("max", [add(at(low, before), Linear(-1)), add(high, offset * -1)], box)
        slab[d] = (low, extremum("min", [high, end], box))
        advance_by = add(at(low, before), scale(low, -1))
    else:
        raise ScheduleError(
            f"window of reuse buffer {name} must move in one direction from one iteration of loop {loop.name} to the "
            f"next, not from {low} to {high} along dimension {d}. Reuse at another loop.",
            kind="limit",
        )
    advance = max(min(bound_range(advance_by, after_first)[1], shape[d]), 1)
    return slab, Window([each for each, _ in held], extents, d, shape, advance)


def never_above(one: Bound, other: Bound, box: Box) -> bool:
    """Whether a bound is at most another at every point; evaluated at all points where their form does not show it."""
    if at_most(one, other, box):
        return True
    variables = list(bound_variables(one) | bound_variables(other))
    ranges = [range(box[variable][0], box[variable][1] + 1) for variable in variables]
    if prod(map(len, ranges)) > MOST_POINTS:
        return False
    points = (dict(zip(variables, values, strict=True)) for values in product(*ranges))
    return all(bound_value(one, point) <= bound_value(other, point) for point in points)


def buffer_shape(extents: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a reuse buffer: the window's, without the dimensions of extent 1 unless it has no other."""
    return tuple(extent for extent in extents if extent > 1) or (1,)
