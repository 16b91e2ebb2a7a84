"""Grouping of a GEMM instruction's micro-ops into batched matrix multiplications.

All executions of an instruction only add to accumulators, modulo 2^32, so their order does not matter. Each loop, and
the table of micro-ops grouped by destination, becomes a dimension of a batched matmul, by the indices that it changes:
rows (destination and input), columns (destination and weight), batch (all three), or reduction (not the destination).
"""

from collections.abc import Iterator
from enum import Enum
from math import prod
from typing import NamedTuple

import numpy as np

from lathe.sim.micro_ops import Ints, Nest, as_slice

# The product of two int8 is at most 2^14 in magnitude, and float32 represents all integers up to 2^24.
EXACT_TERMS = 1 << 10

# Larger matrices are computed in parts, which bounds memory and lets the parts fit in the caches.
MOST_VALUES = 1 << 21


class Role(Enum):
    """The role of a dimension of the executions in the batched matmul."""

    BATCH = 0
    ROW = 1
    COLUMN = 2
    SUM = 3


class RowReduction(NamedTuple):
    """Reduction of rows with equal destinations: sort, add runs, and add these to distinct destinations."""

    order: Ints
    starts: Ints


class Contraction(NamedTuple):
    """acc[dst[b, m, n]] += sum over k of inp[src[b, m, k]] · wgt[wgt[b, n, k]]ᵀ, with flat index arrays.

    ``shape`` is (B, M, N, K). ``dst`` has distinct indices; if the instruction's are not, ``sums`` is not None.
    """

    shape: tuple[int, int, int, int]
    src: Ints
    wgt: Ints
    dst: slice | Ints
    sums: RowReduction | None

    @property
    def stored(self) -> int:
        """The number of indices held."""
        return len(self.src) + len(self.wgt) + (0 if isinstance(self.dst, slice) else len(self.dst))


class Values(NamedTuple):
    """Values per vector of a machine's memories, and the maximum micro-ops of one exact sum."""

    inp: int
    wgt: int
    acc: int
    most_terms: int


def contractions(nest: Nest, values: Values) -> Iterator[Contraction]:
    """The matrix multiplications that perform the executions of a nest with at least one."""
    for part in _groups_of_equal_size(nest):
        yield from _contract(part, values)


def _groups_of_equal_size(nest: Nest) -> list[Nest]:
    """The nest split so that within each part, all destinations in the table have equally many micro-ops."""
    _, inverse, counts = np.unique(nest.dst.table, return_inverse=True, return_counts=True)
    sizes = counts[inverse]
    if (sizes == sizes[0]).all():
        return [nest]
    return [nest.part(np.flatnonzero(sizes == size)) for size in np.unique(sizes)]


def _contract(nest: Nest, values: Values) -> Iterator[Contraction]:
    dst, src, wgt, role = _tabulate(nest)
    roles = (
        _role(nest.dst.out, nest.src.out, nest.wgt.out),
        _role(nest.dst.inner, nest.src.inner, nest.wgt.inner),
        role,
        Role.SUM,
    )
    extents = (nest.iter_out, nest.iter_in, *src.shape)
    sizes = {role: prod(e for e, r in zip(extents, roles, strict=True) if r is role) for role in Role}
    batch, rows, columns, terms = (sizes[role] for role in (Role.BATCH, Role.ROW, Role.COLUMN, Role.SUM))
    biggest = batch * max(rows * terms * values.inp, columns * terms * values.wgt, rows * columns * values.acc)
    if biggest > MOST_VALUES and nest.executions > 1:
        for half in nest.halves():
            yield from contractions(half, values)
        return
    src_grid = _grid(nest, src, nest.src.out, nest.src.inner, roles, without=Role.COLUMN)
    wgt_grid = _grid(nest, wgt, nest.wgt.out, nest.wgt.inner, roles, without=Role.ROW)
    dst_grid = _grid(nest, dst, nest.dst.out, nest.dst.inner, roles, without=Role.SUM)
    src_cube = _arrange(src_grid, roles, Role.BATCH, Role.ROW, Role.SUM)
    wgt_cube = _arrange(wgt_grid, roles, Role.BATCH, Role.COLUMN, Role.SUM)
    targets = _arrange(dst_grid, roles, Role.BATCH, Role.ROW, Role.COLUMN).reshape(-1)
    distinct, sums = _distinct(targets)
    for first in range(0, terms, values.most_terms):
        chunk = slice(first, min(first + values.most_terms, terms))
        yield Contraction(
            (batch, rows, columns, chunk.stop - first),
            np.ascontiguousarray(src_cube[:, :, chunk]).reshape(-1),
            np.ascontiguousarray(wgt_cube[:, :, chunk]).reshape(-1),
            as_slice(distinct),
            sums,
        )


def _role(dst: int, src: int, wgt: int) -> Role:
    """The role of a loop by its strides."""
    if dst == 0:
        return Role.SUM
    if wgt == 0:
        return Role.ROW
    return Role.COLUMN if src == 0 else Role.BATCH


def _tabulate(nest: Nest) -> tuple[Ints, Ints, Ints, Role]:
    """The table by destinations: dst (G, 1), src and wgt (G, C), and the role of the groups."""
    dst, src, wgt = nest.dst.table, nest.src.table, nest.wgt.table
    groups = len(np.unique(dst))
    # Compilers list the terms of each destination in one order; sorting finds equal terms in any order.
    for order in (np.argsort(dst, kind="stable"), np.lexsort((wgt, src, dst)), np.lexsort((src, wgt, dst))):
        by_group = order.reshape(groups, -1)
        dst_table, src_table, wgt_table = dst[by_group[:, :1]], src[by_group], wgt[by_group]
        if (src_table == src_table[0]).all():
            return dst_table, src_table, wgt_table, Role.COLUMN
        if (wgt_table == wgt_table[0]).all():
            return dst_table, src_table, wgt_table, Role.ROW
    return dst_table, src_table, wgt_table, Role.BATCH


def _grid(nest: Nest, table: Ints, out: int, inner: int, roles: tuple[Role, ...], without: Role) -> Ints:
    """Indices over (outer, inner, group, term), of extent 1 in dimensions whose role is `without`."""
    outer_extent = 1 if roles[0] is without else nest.iter_out
    inner_extent = 1 if roles[1] is without else nest.iter_in
    groups = table[:1] if roles[2] is without else table
    outer = np.arange(outer_extent)[:, None, None, None] * out
    grid: Ints = outer + np.arange(inner_extent)[:, None, None] * inner + groups
    return grid


def _arrange(grid: Ints, roles: tuple[Role, ...], *result: Role) -> Ints:
    """A grid over (outer, inner, group, term) with its dimensions transposed and merged by role."""
    order = [dim for role in result for dim, own in enumerate(roles) if own is role]
    rest = [dim for dim in range(4) if dim not in order]
    shape = [prod(grid.shape[dim] for dim, own in enumerate(roles) if own is role) for role in result]
    return grid.transpose(order + rest).reshape(shape)


def _distinct(targets: Ints) -> tuple[Ints, RowReduction | None]:
    """The distinct destinations, and the reduction of rows with equal ones (None: there are none)."""
    if np.bincount(targets).max() == 1:
        return targets, None
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], RowReduction(order, starts)
