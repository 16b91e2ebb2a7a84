"""Chunks that differ by addresses only: they get the instructions of the first of them, moved.

What a rule makes of a chunk follows from its loops and its expression, which all iterations of the loops outside share,
from where its operands are in the scratchpads, and how they lie to the blocks of elements there and in DRAM. Where all
that is as it was for an earlier chunk, and its micro-ops still are where they were, only addresses in DRAM differ, all
of them by the same number. So a rule is asked once for each class of chunks, not once for each iteration.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lathe.frontend import Tensor
from lathe.frontend.expressions import Axis, AxisRef, Expr, Read, axes_of
from lathe.frontend.indices.linear import Linear, LoopVariable
from lathe.isa import Instruction, Load, MemoryType, Store
from lathe.scheduler.emission.made_chunks import MadeChunk
from lathe.scheduler.emission.microops import Placed
from lathe.scheduler.emission.places import Walk
from lathe.scheduler.emission.prepared_chunk import PreparedChunk
from lathe.scheduler.nest.nodes import ChunkNode
from lathe.scheduler.state.memories import DRAM
from lathe.scheduler.target.chunk import ChunkLoop, Index, Place

Key = tuple[object, ...]


@dataclass(frozen=True)
class _Side:
    """An operand of a chunk: its index per dimension, as positions of forms, and how far the loops move each."""

    tensor: Tensor
    index: tuple[int, ...]
    reach: tuple[int, ...]


@dataclass(frozen=True)
class _Emitted:
    """The instructions of a chunk, without LOADs of micro-ops, which were ``placed``; ``address`` was that in DRAM."""

    instructions: tuple[Instruction, ...]
    placed: tuple[Placed, ...]
    address: int

    def moved(self, address: int) -> Iterator[Instruction]:
        """The same for another address in DRAM."""
        by = address - self.address
        for each in self.instructions:
            if by and isinstance(each, Load | Store) and each.y_size:  # padding without data reads nothing
                yield replace(each, dram_base=each.dram_base + by)
            else:
                yield each


@dataclass(frozen=True)
class Variant:
    """What sets a chunk apart: its class, the values of forms, and the address of its operand in DRAM."""

    key: Key
    values: tuple[int, ...]
    address: int


class AlikeChunks:
    """The chunks of one node of the nest, and what has been emitted for each of their classes."""

    def __init__(self, prepared: PreparedChunk, node: ChunkNode, role: str) -> None:
        self.node = node
        self.role = role
        self.loops = tuple(ChunkLoop(variable.name, extent, variable.kind) for variable, extent in node.loops)
        self._forms: dict[tuple[int, tuple[tuple[LoopVariable, int], ...]], int] = {}
        self._own = {variable: n for n, (variable, _) in enumerate(node.loops)}
        state = node.placement.state
        self._axes = [self._form(node.roots[axis]) for axis in state.computation.axes]
        self._steps = [self._coefficients(node.roots[axis]) for axis in state.computation.axes]
        self._sides = [self._side(state.tensor, prepared.target)]
        self._sides += [self._side(access.tensor, indices) for access, indices in prepared.accesses]
        guards = [guard for access, _ in prepared.accesses for guard, _ in access.guards]
        decisive = dict.fromkeys((*axes_of(*guards), *_axes_beside_reads(prepared.expression)))
        self._decisive = [self._form(node.roots[axis]) for axis in decisive if axis in node.roots]
        self._known: dict[Key, _Emitted] = {}
        self._strides: dict[int, tuple[Place, tuple[int, ...]]] = {}  # of places in DRAM, which stay

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

    def _side(self, tensor: Tensor, indices: list[Linear]) -> _Side:
        last = [extent - 1 for _, extent in self.node.loops]
        reach = (sum(abs(c) * n for c, n in zip(self._coefficients(each), last, strict=True)) for each in indices)
        return _Side(tensor, tuple(map(self._form, indices)), tuple(reach))

    def variant(self, walk: Walk, environment: Mapping[LoopVariable, int]) -> Variant | None:
        """What the chunk is at some values of the outer loops; None where an operand has no place."""
        values = []
        for constant, terms in self._forms:
            for variable, coefficient in terms:
                constant += coefficient * environment[variable]
            values.append(constant)
        key: list[object] = [values[n] for n in self._decisive]
        stage = self.node.placement.stage
        address: int | None = None
        for number, side in enumerate(self._sides):
            place = walk.place(side.tensor, stage)
            if place is None:
                return None
            index = [values[n] for n in side.index]
            physical, low = place.physical, place.low
            for dim in (physical.lanes.rows, physical.lanes.cols):
                if dim is not None:
                    step = physical.step(dim)
                    first, room = index[dim], physical.view[dim] - index[dim]
                    key += (first % step, low[dim] % step, room if room <= side.reach[dim] + step else -1)
            if place.scope != DRAM:
                key += (place.base, place.extent, place.zero_padded)
                key += [first - start for first, start in zip(index, low, strict=True)]
                continue
            at = self._address(number, place, index)
            if address is None:
                address = at
            else:
                key.append(at)
        return Variant(tuple(key), tuple(values), address or 0)

    def _address(self, number: int, place: Place, index: list[int]) -> int:
        """The element of DRAM at an index, as if its box went on."""
        known = self._strides.get(number)
        if known is None or known[0] is not place:
            known = self._strides[number] = place, place.strides
        at = place.base
        for dim, (value, stride) in enumerate(zip(index, known[1], strict=True)):
            step = place.physical.step(dim)
            if step == 1:
                at += (value - place.low[dim]) * stride
            else:
                at += (value // step - place.low[dim] // step) * stride + value % step // place.physical.block(dim)
        return at

    def note(self, variant: Variant, instructions: list[Instruction], placed: list[Placed]) -> None:
        """What has been emitted for a chunk."""
        resident = (each for each in instructions if not _loads_microops(each))
        self._known[variant.key] = _Emitted(tuple(resident), tuple(placed), variant.address)

    def emitted(self, variant: Variant, walk: Walk) -> list[Instruction] | None:
        """The instructions of a chunk, if they are those of an earlier one, moved."""
        found = self._known.get(variant.key)
        if found is None or not walk.pool.holds(found.placed):
            return None
        return list(found.moved(variant.address))

    def made(self, variant: Variant, offsets: Mapping[str, int]) -> MadeChunk:
        """What a chunk makes."""
        values = variant.values
        index = tuple(Index(values[n], steps) for n, steps in zip(self._axes, self._steps, strict=True))
        return MadeChunk(
            self.node.placement.state.tensor,
            self.role,
            self.loops,
            index,
            self.node.placement.state.computation.name,
            offsets,
        )


def _axes_beside_reads(expr: Expr) -> Iterator[Axis]:
    """The axes of an expression that are not in the indices of what it reads: they decide, or are values."""
    if isinstance(expr, AxisRef):
        yield expr.axis
    elif not isinstance(expr, Read):
        for child in expr.children:
            yield from _axes_beside_reads(child)


def _loads_microops(instruction: Instruction) -> bool:
    return isinstance(instruction, Load) and instruction.memory_type == MemoryType.UOP
