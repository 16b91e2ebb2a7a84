"""Memoisation of emitted code: chunks that differ by DRAM addresses only get the first one's instructions, relocated.

The result of a rule depends on a chunk's loops and expression, which all iterations of the enclosing loops share, on
the scratchpad addresses of its operands, on their alignment to vector blocks there and in DRAM, and on where conditions
on its axes hold, such as those of padding. If all these are as for an earlier chunk, and its micro-ops are still
resident, only DRAM addresses differ, all by the same number. So a rule is called once for each class of chunks, not
once for each iteration; with GEMMs that overwrite accumulators, twice: for chunks that find zeros there, and sums.
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
from lathe.scheduler.codegen.chunk_template import ChunkTemplate
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.isel.chunk import BufferView, ChunkLoop, Index
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.stream.elide_accumulator_init import ZeroInitQuery
from lathe.scheduler.stream.micro_op_pool import PooledSequence

Key = tuple[object, ...]


@dataclass
class _OperandForms:
    """An operand of a chunk: the form of each index (a number for its value in enclosing loops), and its reach in own.

    ``lanes``, set by the first chunk, are the dimensions along the vector lanes of ``physical``: dimension, form, block
    length, and the distance from the tensor's end within which a chunk may access it.
    """

    tensor: Tensor
    index: tuple[int, ...]
    reach: tuple[int, ...]
    physical: PhysicalLayout | None = None
    lanes: tuple[tuple[int, int, int, int], ...] = ()
    stored: BufferView | None = None
    strides: tuple[tuple[int, int, int, int], ...] = ()

    def set_layout(self, physical: PhysicalLayout) -> None:
        """Set the operand's layout in vectors, which is the same for all chunks."""
        self.physical = physical
        dims = (*physical.lanes.dims, *(dim for dim, gap in enumerate(physical.gaps) if gap is not None))
        steps = [physical.step(dim) for dim in dims]
        self.lanes = tuple(
            (dim, self.index[dim], step, self.reach[dim] + step) for dim, step in zip(dims, steps, strict=True)
        )

    def address(self, place: BufferView, values: list[int]) -> int:
        """The address of an index in DRAM, in vectors, as if the box of the buffer went on."""
        if self.stored is not place:  # buffers in DRAM never move
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
class _Condition:
    """A condition on one axis, evaluated at the values of the axis in a chunk: its ``form`` plus ``offsets``."""

    condition: Expr
    axis: Axis
    form: int
    offsets: range
    known: dict[int, bytes] = field(default_factory=dict)

    def at(self, values: list[int]) -> bytes:
        """The condition at each value of the axis, one byte each."""
        first = values[self.form]
        found = self.known.get(first)
        if found is None:
            points = first + np.arange(self.offsets.start, self.offsets.stop)
            holds = np.broadcast_to(evaluate(self.condition, {self.axis: points}), points.shape)
            found = self.known[first] = holds.tobytes()
        return found


@dataclass(frozen=True)
class _Emitted:
    """The instructions of a chunk without LOADs of micro-ops (``placed``); ``fields`` of those that access DRAM."""

    instructions: list[Instruction]
    fields: list[dict[str, Any] | None]
    placed: tuple[PooledSequence, ...]
    address: int

    @staticmethod
    def of(instructions: list[Instruction], placed: list[PooledSequence], address: int) -> "_Emitted":
        resident = [each for each in instructions if not loads_micro_ops(each)]
        return _Emitted(resident, [_dram_fields(each) for each in resident], tuple(placed), address)

    def moved(self, address: int) -> list[Instruction]:
        """The instructions for another address in DRAM."""
        by = address - self.address
        if not by:
            return self.instructions
        return [
            each if fields is None else type(each)(**{**fields, "dram_base": fields["dram_base"] + by})
            for each, fields in zip(self.instructions, self.fields, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Variant:
    """What distinguishes a chunk: its class, the values of forms, and the address of its operand in DRAM."""

    key: Key
    values: list[int]
    address: int


class ChunkMemo:
    """The code emitted for each class of the chunks of one chunk node in the nest."""

    def __init__(self, prepared: ChunkTemplate, node: ChunkNode, role: str) -> None:
        self.node = node
        self.role = role
        self.loops = tuple(ChunkLoop(variable.name, extent, variable.kind) for variable, extent in node.loops)
        self._forms: dict[tuple[int, tuple[tuple[LoopVariable, int], ...]], int] = {}
        self._own = {variable: n for n, (variable, _) in enumerate(node.loops)}
        state = node.placement.state
        self.stage, self.tensor, self.name = node.placement.stage, state.tensor, state.computation.name
        roots = [node.roots[axis] for axis in state.computation.axes]
        self._axes = [(self._form(each), self._coefficients(each)) for each in roots]
        self._operands = [self._operand_forms(state.tensor, prepared.target)]
        self._operands += [self._operand_forms(access.tensor, indices) for access, indices in prepared.accesses]
        guards = [guard for access, _ in prepared.accesses for guard in access.guards]
        self._conditions: list[_Condition] = []
        decisive: dict[Axis, None] = {}
        for each in dict.fromkeys((*_split_conditions(guards), *_outside_reads(prepared.expression))):
            axes = axes_of(each)
            if isinstance(each, AxisRef) or len(axes) != 1 or reads_data(each) or axes[0] not in node.roots:
                decisive.update(dict.fromkeys(axes))
            else:
                self._conditions.append(self._condition_of(each, axes[0]))
        self._decisive = [self._form(node.roots[axis]) for axis in decisive if axis in node.roots]
        self._known: dict[tuple[Key, bool], _Emitted] = {}
        self._queried: dict[Key, NDArray[np.int64]] = {}
        self._indices: dict[tuple[int, tuple[int, ...]], Index] = {}

    @staticmethod
    def possible(prepared: ChunkTemplate, node: ChunkNode) -> bool:
        """Whether chunks of a node may differ by addresses only: no index has a division, no user buffer is written."""
        indices = [*node.roots.values(), *prepared.target, *(each for _, some in prepared.accesses for each in some)]
        plain = all(isinstance(atom, LoopVariable) for each in indices for atom in each.terms)
        return plain and node.placement.state.storage is None

    def _form(self, value: Linear) -> int:
        """The number of a value's form: of its constant and its terms in enclosing loops."""
        terms = ((v, c) for v, c in value.terms.items() if isinstance(v, LoopVariable) and v not in self._own)
        return self._forms.setdefault((value.constant, tuple(terms)), len(self._forms))

    def _coefficients(self, value: Linear) -> tuple[int, ...]:
        return tuple(value.terms.get(variable, 0) for variable in self._own)

    def _condition_of(self, condition: Expr, axis: Axis) -> "_Condition":
        value = self.node.roots[axis]
        steps = [c * (extent - 1) for c, (_, extent) in zip(self._coefficients(value), self.node.loops, strict=True)]
        low, high = sum(min(each, 0) for each in steps), sum(max(each, 0) for each in steps)
        return _Condition(condition, axis, self._form(value), range(low, high + 1))

    def _operand_forms(self, tensor: Tensor, indices: list[Linear]) -> _OperandForms:
        last = [extent - 1 for _, extent in self.node.loops]
        reach = (sum(abs(c) * n for c, n in zip(self._coefficients(each), last, strict=True)) for each in indices)
        return _OperandForms(tensor, tuple(map(self._form, indices)), tuple(reach))

    def _index(self, constant: int, coefficients: tuple[int, ...]) -> Index:
        """An index, the same object for equal values: there are many chunks, and few values."""
        known = self._indices.get((constant, coefficients))
        if known is None:
            known = self._indices[constant, coefficients] = Index(constant, coefficients)
        return known

    def variant(self, walk: AddressResolver, environment: Mapping[LoopVariable, int]) -> Variant | None:
        """The variant of the chunk at some values of the outer loops; None if an operand is in no buffer."""
        values = []
        for constant, terms in self._forms:
            for variable, coefficient in terms:
                constant += coefficient * environment[variable]
            values.append(constant)
        key: list[object] = [values[n] for n in self._decisive]
        key += [each.at(values) for each in self._conditions]
        address: int | None = None
        for operand in self._operands:
            place = walk.place(operand.tensor, self.stage)
            if place is None:
                return None
            physical, low = place.physical, place.low
            if physical is not operand.physical:
                operand.set_layout(physical)
            for dim, n, step, limit in operand.lanes:
                first = values[n]
                room = physical.view[dim] - first
                key += (first % step, low[dim] % step, room if room <= limit else -1)
            if place.scope != DRAM:
                key += (place.base, place.extent, place.zero_padded, place.data)
                key += [values[n] - start for n, start in zip(operand.index, low, strict=True)]
                continue
            at = operand.address(place, values)
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
        """Record the instructions of a chunk, with the accumulators that the rule queried for zeros."""
        queried = question.accumulators if question is not None else None
        fresh: bool | None = False
        if question is not None and queried is not None:
            self._queried[variant.key] = queried
            fresh = question.fresh(queried)
        if fresh is not None:
            self._known[variant.key, fresh] = _Emitted.of(instructions, placed, variant.address)

    def emitted(self, variant: Variant, walk: AddressResolver) -> list[Instruction] | None:
        """The instructions of an earlier chunk of the same class, relocated; None if there are none to reuse."""
        queried = self._queried.get(variant.key)
        fresh = False if queried is None else walk.fresh(queried)
        memo = None if fresh is None else self._known.get((variant.key, fresh))
        if memo is None or not walk.pool.are_resident(memo.placed):
            return None
        return memo.moved(variant.address)

    def provenance(self, variant: Variant, offsets: Mapping[str, int]) -> ChunkProvenance:
        """The provenance of a chunk."""
        values = variant.values
        index = tuple([self._index(values[n], steps) for n, steps in self._axes])
        return ChunkProvenance(self.tensor, self.role, self.loops, index, self.name, offsets)


def _split_conditions(guards: Iterable[Guard]) -> Iterator[Expr]:
    return (each for guard, met in guards for each, _ in guards_of(guard, met))


def _outside_reads(expr: Expr) -> Iterator[Expr]:
    """The conditions of an expression, and the axes that occur neither in these nor in the indices of its reads."""
    if isinstance(expr, AxisRef):
        yield expr
    elif isinstance(expr, Select) and not reads_data(expr.condition):
        yield from _split_conditions([(expr.condition, True)])
        yield from _outside_reads(expr.then)
        yield from _outside_reads(expr.otherwise)
    elif not isinstance(expr, Read):
        for child in expr.children:
            yield from _outside_reads(child)


def _dram_fields(instruction: Instruction) -> dict[str, Any] | None:
    """The fields of an instruction that accesses DRAM; None for others, and for a LOAD of padding alone."""
    if not isinstance(instruction, Load | Store) or not instruction.y_size:
        return None
    return {name: getattr(instruction, name) for name in FIELDS_OF[instruction.opcode]}
