"""Chunks that differ by addresses only: they get the instructions of the first of them, moved.

What a rule makes of a chunk follows from its loops and its expression, which all iterations of the loops outside share,
from where its operands are in the scratchpads, how they lie to the blocks of elements there and in DRAM, and where the
conditions on its axes hold, such as those of padding. Where all that is as it was for an earlier chunk, and its
micro-ops still are where they were, only addresses in DRAM differ, all of them by the same number. So a rule is asked
once for each class of chunks, not once for each iteration. Where sums may begin it is asked twice: for chunks that find
zeros in the accumulators, and for those that find sums.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, evaluate
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Guard, Read, Select, axes_of, reads_data
from lathe.isa import Instruction, Load, Store
from lathe.isa.instructions import FIELDS_OF, loads_micro_ops
from lathe.scheduler.codegen.address_resolver import AddressResolver
from lathe.scheduler.codegen.chunk_template import PreparedChunk
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.isel.chunk import BufferView, ChunkLoop, Index
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.stream.elide_accumulator_init import ZeroInitQuery
from lathe.scheduler.stream.micro_op_pool import PooledSequence

Key = tuple[object, ...]


@dataclass
class _Side:
    """An operand of a chunk: its index per dimension, as positions of forms, and how far the loops move each.

    ``lanes`` are of the dimensions that run along the lanes of ``physical``: the dimension, its position, its step, and
    how far from the tensor's end a chunk may be that touches it. What lies in elements is noted with the first chunk.
    """

    tensor: Tensor
    index: tuple[int, ...]
    reach: tuple[int, ...]
    physical: PhysicalLayout | None = None
    lanes: tuple[tuple[int, int, int, int], ...] = ()
    stored: BufferView | None = None
    strides: tuple[tuple[int, int, int, int], ...] = ()

    def lie(self, physical: PhysicalLayout) -> None:
        """Note how the operand lies in elements, which is the same for all chunks."""
        self.physical = physical
        dims = (*physical.lanes.dims, *(dim for dim, gap in enumerate(physical.gaps) if gap is not None))
        steps = [physical.step(dim) for dim in dims]
        self.lanes = tuple(
            (dim, self.index[dim], step, self.reach[dim] + step) for dim, step in zip(dims, steps, strict=True)
        )

    def address(self, place: BufferView, values: list[int]) -> int:
        """The element of DRAM at an index, as if the box of the place went on."""
        if self.stored is not place:  # places in DRAM stay
            physical = place.physical
            steps = [(physical.step(dim), physical.block(dim)) for dim in range(len(self.index))]
            self.stored = place
            self.strides = tuple(
                (n, stride, *step) for n, stride, step in zip(self.index, place.strides, steps, strict=True)
            )
        at = place.base
        for low, (n, stride, step, block) in zip(place.low, self.strides, strict=True):
            if step == 1:
                at += (values[n] - low) * stride
            else:
                at += (values[n] // step - low // step) * stride + values[n] % step // block
        return at


@dataclass(frozen=True)
class _Truths:
    """A condition on one axis: where it holds among the values that the axis has in a chunk, so far ``around`` one."""

    condition: Expr
    axis: Axis
    form: int
    around: range
    known: dict[int, bytes] = field(default_factory=dict)

    def at(self, values: list[int]) -> bytes:
        """A byte for each value of the axis, which is all that a condition decides by."""
        first = values[self.form]
        found = self.known.get(first)
        if found is None:
            points = first + np.arange(self.around.start, self.around.stop)
            holds = np.broadcast_to(evaluate(self.condition, {self.axis: points}), points.shape)
            found = self.known[first] = holds.tobytes()
        return found


@dataclass(frozen=True)
class _Emitted:
    """The instructions of a chunk, without LOADs of micro-ops, which were ``placed``; ``address`` was that in DRAM.

    ``fields`` are those of the instructions that move, None for others.
    """

    instructions: list[Instruction]
    fields: list[dict[str, Any] | None]
    placed: tuple[PooledSequence, ...]
    address: int

    @staticmethod
    def of(instructions: list[Instruction], placed: list[PooledSequence], address: int) -> "_Emitted":
        resident = [each for each in instructions if not loads_micro_ops(each)]
        return _Emitted(resident, [_moving_fields(each) for each in resident], tuple(placed), address)

    def moved(self, address: int) -> list[Instruction]:
        """The same for another address in DRAM."""
        by = address - self.address
        if not by:
            return self.instructions
        return [
            each if fields is None else type(each)(**{**fields, "dram_base": fields["dram_base"] + by})
            for each, fields in zip(self.instructions, self.fields, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Variant:
    """What sets a chunk apart: its class, the values of forms, and the address of its operand in DRAM."""

    key: Key
    values: list[int]
    address: int


class ChunkMemo:
    """The chunks of one node of the nest, and what has been emitted for each of their classes."""

    def __init__(self, prepared: PreparedChunk, node: ChunkNode, role: str) -> None:
        self.node = node
        self.role = role
        self.loops = tuple(ChunkLoop(variable.name, extent, variable.kind) for variable, extent in node.loops)
        self._forms: dict[tuple[int, tuple[tuple[LoopVariable, int], ...]], int] = {}
        self._own = {variable: n for n, (variable, _) in enumerate(node.loops)}
        state = node.placement.state
        self.stage, self.tensor, self.name = node.placement.stage, state.tensor, state.computation.name
        roots = [node.roots[axis] for axis in state.computation.axes]
        self._axes = [(self._form(each), self._coefficients(each)) for each in roots]
        self._sides = [self._side(state.tensor, prepared.target)]
        self._sides += [self._side(access.tensor, indices) for access, indices in prepared.accesses]
        guards = [guard for access, _ in prepared.accesses for guard in access.guards]
        self._truths: list[_Truths] = []
        decisive: dict[Axis, None] = {}
        for each in dict.fromkeys((*_apart(guards), *_beside_reads(prepared.expression))):
            axes = axes_of(each)
            if isinstance(each, AxisRef) or len(axes) != 1 or reads_data(each) or axes[0] not in node.roots:
                decisive.update(dict.fromkeys(axes))
            else:
                self._truths.append(self._truths_of(each, axes[0]))
        self._decisive = [self._form(node.roots[axis]) for axis in decisive if axis in node.roots]
        self._known: dict[tuple[Key, bool], _Emitted] = {}
        self._asked: dict[Key, NDArray[np.int64]] = {}
        self._indices: dict[tuple[int, tuple[int, ...]], Index] = {}

    @staticmethod
    def possible(prepared: PreparedChunk, node: ChunkNode) -> bool:
        """Whether chunks of a node may differ by addresses only: no index has a division, nor is a cell chosen."""
        indices = [*node.roots.values(), *prepared.target, *(each for _, some in prepared.accesses for each in some)]
        plain = all(isinstance(atom, LoopVariable) for each in indices for atom in each.terms)
        return plain and node.placement.state.storage is None

    def _form(self, value: Linear) -> int:
        """The position of what a value is in the loops outside."""
        terms = ((v, c) for v, c in value.terms.items() if isinstance(v, LoopVariable) and v not in self._own)
        return self._forms.setdefault((value.constant, tuple(terms)), len(self._forms))

    def _coefficients(self, value: Linear) -> tuple[int, ...]:
        return tuple(value.terms.get(variable, 0) for variable in self._own)

    def _truths_of(self, condition: Expr, axis: Axis) -> "_Truths":
        value = self.node.roots[axis]
        steps = [c * (extent - 1) for c, (_, extent) in zip(self._coefficients(value), self.node.loops, strict=True)]
        low, high = sum(min(each, 0) for each in steps), sum(max(each, 0) for each in steps)
        return _Truths(condition, axis, self._form(value), range(low, high + 1))

    def _side(self, tensor: Tensor, indices: list[Linear]) -> _Side:
        last = [extent - 1 for _, extent in self.node.loops]
        reach = (sum(abs(c) * n for c, n in zip(self._coefficients(each), last, strict=True)) for each in indices)
        return _Side(tensor, tuple(map(self._form, indices)), tuple(reach))

    def _index(self, constant: int, coefficients: tuple[int, ...]) -> Index:
        """An index, the same object each time: there are many chunks, and few values."""
        known = self._indices.get((constant, coefficients))
        if known is None:
            known = self._indices[constant, coefficients] = Index(constant, coefficients)
        return known

    def variant(self, walk: AddressResolver, environment: Mapping[LoopVariable, int]) -> Variant | None:
        """What the chunk is at some values of the outer loops; None where an operand has no place."""
        values = []
        for constant, terms in self._forms:
            for variable, coefficient in terms:
                constant += coefficient * environment[variable]
            values.append(constant)
        key: list[object] = [values[n] for n in self._decisive]
        key += [each.at(values) for each in self._truths]
        address: int | None = None
        for side in self._sides:
            place = walk.place(side.tensor, self.stage)
            if place is None:
                return None
            physical, low = place.physical, place.low
            if physical is not side.physical:
                side.lie(physical)
            for dim, n, step, limit in side.lanes:
                first = values[n]
                room = physical.view[dim] - first
                key += (first % step, low[dim] % step, room if room <= limit else -1)
            if place.scope != DRAM:
                key += (place.base, place.extent, place.zero_padded, place.data)
                key += [values[n] - start for n, start in zip(side.index, low, strict=True)]
                continue
            at = side.address(place, values)
            if address is None:
                address = at
            else:
                key.append(at)
        return Variant(tuple(key), values, address or 0)

    def note(
        self,
        variant: Variant,
        instructions: list[Instruction],
        placed: list[PooledSequence],
        question: ZeroInitQuery | None,
    ) -> None:
        """What has been emitted for a chunk, with what the rule asked about accumulators."""
        asked = question.asked if question is not None else None
        fresh: bool | None = False
        if question is not None and asked is not None:
            self._asked[variant.key] = asked
            fresh = question.fresh(asked)
        if fresh is not None:
            self._known[variant.key, fresh] = _Emitted.of(instructions, placed, variant.address)

    def emitted(self, variant: Variant, walk: AddressResolver) -> list[Instruction] | None:
        """The instructions of a chunk, if they are those of an earlier one, moved."""
        asked = self._asked.get(variant.key)
        fresh = False if asked is None else walk.fresh(asked)
        found = None if fresh is None else self._known.get((variant.key, fresh))
        if found is None or not walk.pool.holds(found.placed):
            return None
        return found.moved(variant.address)

    def made(self, variant: Variant, offsets: Mapping[str, int]) -> ChunkProvenance:
        """What a chunk makes."""
        values = variant.values
        index = tuple([self._index(values[n], steps) for n, steps in self._axes])
        return ChunkProvenance(self.tensor, self.role, self.loops, index, self.name, offsets)


def _apart(guards: Iterable[Guard]) -> Iterator[Expr]:
    return (each for guard, met in guards for each, _ in guards_of(guard, met))


def _beside_reads(expr: Expr) -> Iterator[Expr]:
    """The conditions of an expression, and the axes that are neither in these nor in the indices of what it reads."""
    if isinstance(expr, AxisRef):
        yield expr
    elif isinstance(expr, Select) and not reads_data(expr.condition):
        yield from _apart([(expr.condition, True)])
        yield from _beside_reads(expr.then)
        yield from _beside_reads(expr.otherwise)
    elif not isinstance(expr, Read):
        for child in expr.children:
            yield from _beside_reads(child)


def _moving_fields(instruction: Instruction) -> dict[str, Any] | None:
    """The fields of an instruction that moves data from or to DRAM; padding without data reads nothing."""
    if not isinstance(instruction, Load | Store) or not instruction.y_size:
        return None
    return {name: getattr(instruction, name) for name in FIELDS_OF[instruction.opcode]}
