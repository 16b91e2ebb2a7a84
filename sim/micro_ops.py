"""Executions of an instruction's micro-ops: three affine indices over two loops and a table of micro-ops."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lathe.isa.instructions import MicroOpInstruction
from lathe.isa.operands import operands_of

Ints = NDArray[np.int64]
Addresses = slice | Ints
"""Addresses of vectors in a scratchpad: a contiguous range, or an index array."""


class Index(NamedTuple):
    """A vector index: ``table[u] + o * out + i * inner`` for micro-op u in iteration (o, i)."""

    table: Ints
    out: int
    inner: int

    def highest(self, iter_out: int, iter_in: int) -> int:
        """The largest index; all fields are at least 0."""
        return int(self.table.max()) + (iter_out - 1) * self.out + (iter_in - 1) * self.inner

    def first_from(self, bound: int, iter_in: int) -> int:
        """The number, in execution order, of the first index that is `bound` or more; there must be one."""
        top = int(self.table.max())
        outer = _iterations(bound - top - (iter_in - 1) * self.inner, self.out)
        inner = _iterations(bound - top - outer * self.out, self.inner)
        reached = self.table + (outer * self.out + inner * self.inner) >= bound
        return (outer * iter_in + inner) * len(self.table) + int(np.argmax(reached))

    def grid(self, iter_out: int, iter_in: int) -> Ints:
        """All indices in the order of execution, (iter_out, iter_in, U)."""
        outer = np.arange(iter_out)[:, None, None] * self.out
        inner = np.arange(iter_in)[None, :, None] * self.inner
        grid: Ints = outer + inner + self.table
        return grid


def _iterations(missing: int, factor: int) -> int:
    """Iterations until a value that grows by `factor` in each has grown by `missing`."""
    return -(-missing // factor) if missing > 0 else 0


class Nest(NamedTuple):
    """The loops of an instruction and the indices of its micro-ops; unused indices have strides of 0."""

    iter_out: int
    iter_in: int
    dst: Index
    src: Index
    wgt: Index

    def of(self, name: str) -> Index:
        """The index with a name."""
        index: Index = getattr(self, name)
        return index

    @property
    def executions(self) -> int:
        """The number of executed micro-ops."""
        return self.iter_out * self.iter_in * len(self.dst.table)

    def halves(self) -> tuple["Nest", "Nest"]:
        """The nest split in two along its outermost loop with more than one iteration; the first half runs first."""
        if self.iter_out > 1:
            cut = self.iter_out // 2
            rest = self.moved(cut, 0)
            return self._replace(iter_out=cut), rest._replace(iter_out=self.iter_out - cut)
        if self.iter_in > 1:
            cut = self.iter_in // 2
            rest = self.moved(0, cut)
            return self._replace(iter_in=cut), rest._replace(iter_in=self.iter_in - cut)
        cut = len(self.dst.table) // 2
        return self.part(slice(cut)), self.part(slice(cut, None))

    def part(self, chosen: slice | Ints) -> "Nest":
        """The nest with some of the micro-ops."""
        dst, src, wgt = (index._replace(table=index.table[chosen]) for index in (self.dst, self.src, self.wgt))
        return self._replace(dst=dst, src=src, wgt=wgt)

    def moved(self, outer: int, inner: int) -> "Nest":
        """The nest that starts at iteration (outer, inner)."""
        dst, src, wgt = (
            index._replace(table=index.table + (outer * index.out + inner * index.inner))
            for index in (self.dst, self.src, self.wgt)
        )
        return self._replace(dst=dst, src=src, wgt=wgt)


def nest_of(instruction: MicroOpInstruction, dst: Ints, src: Ints, wgt: Ints) -> Nest:
    """The nest of an instruction whose micro-ops have the given fields."""
    factors = {each.index: each.factors_of(instruction) for each in operands_of(instruction.opcode)}
    tables = (("dst", dst), ("src", src), ("wgt", wgt))
    return Nest(
        instruction.iter_out, instruction.iter_in, *(Index(table, *factors.get(name, (0, 0))) for name, table in tables)
    )


def last_writes(nest: Nest) -> Nest:
    """The executions whose writes are not overwritten by later ones: for each destination the last one.

    ``nest`` has at least one execution. The result keeps its loops if no two iterations write the same destination.
    """
    outer = nest.iter_out - 1 if nest.dst.out == 0 else 0
    inner = nest.iter_in - 1 if nest.dst.inner == 0 else 0
    nest = nest.moved(outer, inner)._replace(iter_out=nest.iter_out - outer, iter_in=nest.iter_in - inner)
    nest = nest.part(_last_of_each(nest.dst.table))
    targets = nest.dst.highest(nest.iter_out, nest.iter_in) + 1
    if nest.executions <= targets and len(np.unique(nest.dst.grid(nest.iter_out, nest.iter_in))) == nest.executions:
        return nest
    # The last writes are the same micro-ops in each outer iteration, so memory is bounded by the destinations and the
    # iterations of one loop.
    for extent in ("iter_in", "iter_out"):
        loops = {"iter_out": 1, "iter_in": 1, extent: getattr(nest, extent)}
        tables = [index._replace(table=index.grid(**loops).reshape(-1)) for index in (nest.dst, nest.src, nest.wgt)]
        nest = nest._replace(**{extent: 1}, dst=tables[0], src=tables[1], wgt=tables[2])
        nest = nest.part(_last_of_each(nest.dst.table))
    return nest


def _last_of_each(values: Ints) -> Ints:
    """The positions of the last occurrence of each value, ascending."""
    _, from_end = np.unique(values[::-1], return_index=True)
    positions: Ints = np.sort(len(values) - 1 - from_end)
    return positions


def as_slice(indices: Ints) -> slice | Ints:
    """The indices as a slice, which NumPy processes faster, if they are consecutive."""
    flat = indices.reshape(-1)
    first, count = int(flat[0]), len(flat)
    if int(flat[-1]) - first == count - 1 and (count == 1 or bool((np.diff(flat) == 1).all())):
        return slice(first, first + count)
    return flat
