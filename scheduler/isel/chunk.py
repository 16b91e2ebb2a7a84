"""Chunks: unconditional loop nests with constant extents, the unit of instruction selection.

``Chunk`` is the input of an emission rule: loops, the expression, and operands whose indices are linear in the loops.
``vectors`` vectorises it: loops over whole vectors, and a linear address per operand.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Guard, Read
from lathe.isa import Load
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.split_vector_groups import split_bits, split_groups
from lathe.scheduler.layout.nonzero_analysis import HeldCells
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.schedule_ir.stage import VectorLayout


class MicroOps(Protocol):
    """The micro-op scratchpad, as rules use it."""

    @property
    def capacity(self) -> int:
        """The most micro-ops that one sequence may have."""
        ...

    def place(
        self, dst: NDArray[np.int64], src: NDArray[np.int64], wgt: NDArray[np.int64]
    ) -> tuple[int, int, list[Load]]:
        """Allocate a sequence: its first address, one past its last, and the LOAD that it needs first, if any."""
        ...


@dataclass(frozen=True, slots=True)
class ChunkLoop:
    """One loop of a chunk: ``extent`` iterations from 0; ``kind`` is data or reduce."""

    name: str
    extent: int
    kind: str


@dataclass(frozen=True, slots=True)
class Index:
    """A linear index: ``constant + sum(coefficients[n] * loop n)``."""

    constant: int
    coefficients: tuple[int, ...]

    def last(self, extents: Sequence[int]) -> int:
        """The largest value over all iterations."""
        return self.constant + sum(max(c, 0) * (e - 1) for c, e in zip(self.coefficients, extents, strict=True))

    def moves_by(self, block: int, extents: Sequence[int]) -> bool:
        """Whether the stride of some loop is a multiple of the block."""
        return any(e > 1 and c and c % block == 0 for c, e in zip(self.coefficients, extents, strict=True))

    def first(self, extents: Sequence[int]) -> int:
        """The smallest value over all iterations."""
        return self.constant + sum(min(c, 0) * (e - 1) for c, e in zip(self.coefficients, extents, strict=True))


@dataclass(frozen=True)
class BufferView:
    """Where a box of a tensor is stored: its memory and base address; it is dense in the tensor's physical layout.

    ``base`` counts vectors, in the scratchpad, or in DRAM from address 0. ``low`` and ``extent`` give the box.
    ``data``: which of its indices, counted from ``low``, may hold non-zeros (``nonzero_masks``); None: all.
    """

    scope: str
    physical: PhysicalLayout
    base: int
    low: tuple[int, ...]
    extent: tuple[int, ...]
    storage: str = ""  # of DRAM tensors: "", "int32" or "planes"
    zero_padded: bool = False  # whether pad lanes, outside the tensor's shape, are known to be zero
    data: HeldCells | None = None

    @property
    def strides(self) -> tuple[int, ...]:
        return self.physical.strides(self.low, self.extent)[0]


@dataclass(frozen=True)
class Operand:
    """One access of a chunk: the tensor, its index in each dimension, and where it is stored (None: nowhere yet)."""

    tensor: Tensor
    index: tuple[Index, ...]
    place: BufferView | None
    read: Read | None = None
    guards: tuple[Guard, ...] = ()

    @property
    def scope(self) -> str:
        return self.place.scope if self.place is not None else "dram"


class EmitterContext(Protocol):
    """The services of the code generator that rules may use: micro-ops, temporaries, facts about the program."""

    @property
    def pool(self) -> MicroOps:
        """The micro-op scratchpad."""
        ...

    @property
    def temporaries_left(self) -> int:
        """Temporary vectors of acc that this chunk has not allocated yet."""
        ...

    def begin(self, cells: NDArray[np.int64]) -> bool:
        """Claim accumulators that hold zeros, so that the first GEMM can overwrite them instead of accumulating.

        False if they do not, or are claimed already.
        """
        ...

    def holds_zeros(self, cells: NDArray[np.int64]) -> bool:
        """Whether all of these accumulators hold zeros and can be claimed by ``begin``."""
        ...

    def temporary(self, count: int) -> int:
        """Allocate ``count`` vectors of acc for this chunk: the first address. Raises UopCapacityMismatch."""
        ...

    def reusing_temporaries(self) -> AbstractContextManager[None]:
        """Free the temporaries that are allocated inside, on exit."""
        ...

    def check_covers(self, chunk: "Chunk", target: "VectorOperand") -> None:
        """Raises RuleMismatch if a vector that the chunk writes has live lanes that it does not write."""
        ...

    def keeps_source(self, chunk: "Chunk") -> bool:
        """Whether what a chunk stores is read again afterwards."""
        ...

    def rule_of_producer(self, tensor: Tensor) -> str | None:
        """The rule that computes a tensor, if a stage does."""
        ...

    def only_stored(self, tensor: Tensor) -> bool:
        """Whether only stores to DRAM read the tensor, which use the low bits only."""
        ...


@dataclass(frozen=True)
class Chunk:
    """The input of an emission rule.

    ``stage`` and ``pragma`` name the stage and the rule; ``role`` is "map" for a statement without reduction, "init"
    and "update" for the initialisation and the accumulation of a reduction. ``loops`` are outermost first; ``write`` is
    the operand written, ``reads`` the operands of ``expression`` in order. ``offsets`` gives the values of the outer
    loops, by name. All values are plain integers.
    """

    stage: str
    pragma: str
    role: str
    loops: tuple[ChunkLoop, ...]
    axes: Mapping[Axis, Index]
    expression: Expr
    reduction: str | None
    write: Operand
    reads: tuple[Operand, ...]
    offsets: Mapping[str, int]
    config: HardwareConfig
    emitter: EmitterContext
    unrolled: frozenset[int] = frozenset()
    aliased: Tensor | None = None  # the operand that the result overwrites in place

    @property
    def extents(self) -> tuple[int, ...]:
        """The extent of each loop, outermost first."""
        return tuple(loop.extent for loop in self.loops)

    def operand(self, read: Read) -> Operand:
        """The operand of a read in the expression."""
        for operand in self.reads:
            if operand.read is read:
                return operand
        raise AssertionError(f"{read} is no read of {self.stage}")

    def describe(self) -> str:
        return described(self.stage, self.role, self.loops, self.offsets)


def described(stage: str, role: str, loops: Sequence[ChunkLoop], offsets: Mapping[str, int]) -> str:
    """The text of a chunk in messages: ``stage.role(loops) at outer loops``."""
    inside = ", ".join(f"{loop.name} in 0..{loop.extent}" for loop in loops)
    outside = ", ".join(f"{name}={value}" for name, value in offsets.items())
    return f"{stage}.{role}({inside}){f' at {outside}' if outside else ''}"


@dataclass(frozen=True)
class VectorOperand:
    """An operand in vectors: address ``base + sum(strides[n] * loop n)``; ``rows``, ``cols``: the lanes covered."""

    operand: Operand
    base: int
    strides: tuple[int, ...]
    rows: "LaneRange"
    cols: "LaneRange"


@dataclass(frozen=True)
class LaneRange:
    """Lanes of a vector that a chunk covers: ``count`` from ``first`` on, by loops ``(loop, stride)`` along them."""

    first: int
    loops: tuple[tuple[int, int], ...]
    count: int
    broadcast: bool = False


@dataclass(frozen=True)
class VectorView:
    """A vectorised chunk; indices into ``extents``: ``loops`` over whole vectors, ``lanes`` for the loops in lanes."""

    extents: tuple[int, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    lanes: frozenset[int]
    write: VectorOperand
    reads: tuple[VectorOperand, ...]

    @property
    def loops(self) -> list[int]:
        return [n for n in range(len(self.extents)) if n not in self.lanes and self.extents[n] > 1]


def vectors(chunk: Chunk, *, operands: Sequence[Operand] | None = None) -> VectorView:
    """Vectorise a chunk: split loops along lanes at the block, and move the inner parts into the lanes.

    Raises RuleMismatch if an operand is not stored in any memory, or its lanes do not fit the loops.
    """
    chosen = [chunk.write, *(chunk.reads if operands is None else operands)]
    extents = list(chunk.extents)
    names = [loop.name for loop in chunk.loops]
    kinds = [loop.kind for loop in chunk.loops]
    indices: list[list[list[int]]] = [[list(index.coefficients) for index in each.index] for each in chosen]
    constants = [[index.constant for index in each.index] for each in chosen]
    for each in chosen:
        if each.place is None:
            raise RuleMismatch(
                f"operand {each.tensor.name} must be stored in a scratchpad or dram, and is in none", kind="machine"
            )
    lanes: set[int] = set()
    lane_loops: list[dict[int, list[tuple[int, int]]]] = [{} for _ in chosen]
    covered: list[dict[int, int]] = [{} for _ in chosen]

    scales = [1] * len(extents)  # iterations of the chunk's loop in one iteration of the outer loop split from it

    def split(loop: int, inner: int) -> None:
        """Split a loop into ceil(extent / inner) times inner; the inner one is appended to the loops."""
        scales[loop] *= inner
        scales.append(1)
        extents[loop], rest = -(-extents[loop] // inner), inner
        extents.append(rest)
        names.append(names[loop])
        kinds.append(kinds[loop])
        for dims in indices:
            for coefficients in dims:
                coefficients.append(coefficients[loop])
                coefficients[loop] *= inner

    for number, each in enumerate(chosen):
        assert each.place is not None
        physical = each.place.physical
        for dim in physical.lanes.dims:
            block = physical.block(dim)
            coefficients, constant = indices[number][dim], constants[number][dim]
            if physical.step(dim) > block:
                split_groups(physical, dim, coefficients, constant, extents, scales, split, each.tensor.name)
            inside = sorted((abs(c), n) for n, c in enumerate(coefficients) if c % block and extents[n] > 1)
            reach, along = 1, []
            for step, loop in inside:
                where = f"dimension {dim} of {each.tensor.name}"
                if coefficients[loop] != step or step != reach:
                    raise RuleMismatch(
                        f"index along the lanes of {where} must run through consecutive values, not with stride "
                        f"{coefficients[loop]} (loop {names[loop]})",
                        kind="machine",
                    )
                if reach * extents[loop] <= block and constant % block + reach * extents[loop] <= block:
                    along.append((loop, step))
                    reach *= extents[loop]
                    continue
                if constant % block:
                    raise RuleMismatch(
                        f"index along the lanes of {where} must start at a multiple of {block} to cross the end of a "
                        f"block of lanes, not at {constant}",
                        kind="machine",
                    )
                if block % reach:
                    raise RuleMismatch(
                        f"loops along the lanes of {where} must cover a divisor of {block} lanes, not {reach}",
                        kind="limit",
                    )
                total = reach * extents[loop]
                split(loop, block // reach)
                along.append((len(extents) - 1, step))
                covered[number][dim] = total
                reach = block
                break
            for loop, _ in along:
                lanes.add(loop)
            lane_loops[number][dim] = along
            if physical.positions and dim == physical.lanes.cols:
                split_bits(physical, coefficients, constant, extents, scales, split, each.tensor.name)

    forms = [each.place.physical for each in chosen if each.place is not None]
    together = [form.inseparable for form in forms if form.is_together and form.group > 1]
    if together:  # an innermost loop over the vectors of a group, those that a scratchpad holds
        extents.append(min(together))
        names.append("vector")
        kinds.append("data")
        for dims in indices:
            for coefficients in dims:
                coefficients.append(0)
    loops = [(name, extent, n in lanes) for n, (name, extent) in enumerate(zip(names, extents, strict=True))]
    write, *reads = (
        _vector_operand(each, indices[number], constants[number], loops, lane_loops[number])
        for number, each in enumerate(chosen)
    )
    return VectorView(tuple(extents), tuple(names), tuple(kinds), frozenset(lanes), write, tuple(reads))


def _vector_operand(
    operand: Operand,
    indices: list[list[int]],
    constants: list[int],
    loops: Sequence[tuple[str, int, bool]],
    lane_loops: Mapping[int, list[tuple[int, int]]],
) -> VectorOperand:
    place = operand.place
    assert place is not None
    physical = place.physical
    strides = place.strides
    base = place.base
    steps = [0] * len(loops)
    ranges: dict[int, LaneRange] = {}
    for dim, stride in enumerate(strides):
        block = physical.block(dim)
        along = {loop for loop, _ in lane_loops.get(dim, [])}
        first, step = constants[dim], physical.step(dim)
        within = physical.position if dim == physical.lanes.cols else int
        base += (first // step - place.low[dim] // step) * stride + within(first % step // block)
        count = 1
        for loop, coefficient in enumerate(indices[dim]):
            name, extent, is_along_lanes = loops[loop]
            if coefficient == 0 or extent == 1:
                continue
            if loop in along:
                count *= extent
            elif is_along_lanes:
                raise RuleMismatch(
                    f"loop {name} must run along the lanes of all operands, but moves "
                    f"{operand.tensor.name} along dimension {dim} by whole vectors",
                    kind="machine",
                )
            else:
                if coefficient % block:
                    raise RuleMismatch(
                        f"loop {name} must move {operand.tensor.name} by whole blocks of {block} along "
                        f"dimension {dim}, not by {coefficient}",
                        kind="machine",
                    )
                whole = coefficient % step == 0
                steps[loop] += coefficient // step * stride if whole else within(coefficient // block)
        if dim in physical.lanes.dims:
            ranges[dim] = LaneRange(first % block, tuple(lane_loops.get(dim, [])), count)
    spread = LaneRange(0, (), 1, broadcast=True)
    lanes: VectorLayout = physical.lanes
    rows = spread if lanes.rows is None else ranges[lanes.rows]
    cols = spread if lanes.cols is None else ranges[lanes.cols]
    if physical.inseparable > 1:  # the last loop is the one over the vectors of a group
        steps[-1] = 1
    return VectorOperand(operand, base, tuple(steps), rows, cols)
