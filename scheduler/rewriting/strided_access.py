"""Strided access: the elements ``first + step · n`` of a dimension that are read, and computations of these alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from lathe.frontend import Axis, Computation, Tensor, as_affine
from lathe.frontend.arith.affine import Affine
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Read
from lathe.scheduler.rewriting.rewrite import rewrite, rewrite_indices, rewrite_reads


@dataclass(frozen=True)
class StridedElements:
    """The elements ``first + step · n`` of a dimension, for ``0 <= n < count``."""

    first: int
    step: int
    count: int


def elements_read(indices: Sequence[Expr], extent: int) -> StridedElements | None:
    """The smallest strided set of all elements that indices access; None for none, or an index that is not affine."""
    found = [as_affine(index) for index in indices]
    affine = [each for each in found if each is not None]
    if not affine or len(affine) < len(found):
        return None
    offset = affine[0].const
    step = gcd(*(gcd(each.const - offset, *_moving(each)) for each in affine))
    within = [(max(low, 0), min(high, extent - 1)) for low, high in (each.bounds() for each in affine)]
    low, high = min(low for low, _ in within), max(high for _, high in within)
    if low > high:
        return None  # only padding is read
    step = step or 1
    first = low + (offset - low) % step
    return StridedElements(first, step, (high - first) // step + 1) if first <= high else None


def _moving(index: Affine) -> list[int]:
    """The coefficients of the axes that have more than one value."""
    return [factor for axis, factor in index.coefficients.items() if axis.extent != 1]


def restrict_dim(computation: Computation, dim: int, elements: StridedElements) -> Computation:
    """The computation restricted to some elements of a dimension."""
    axis = computation.axes[dim]
    narrow = Axis(axis.name, elements.count, 0, axis.kind)
    step = elements.step if elements.count > 1 else 1  # a single element needs no stride
    return replace_axis(computation, dim, (narrow,), AxisRef(narrow) * step + elements.first)


def replace_axis(computation: Computation, dim: int, axes: tuple[Axis, ...], place: Expr) -> Computation:
    """The computation with one axis replaced by others; ``place`` is its value in terms of these."""
    axis = computation.axes[dim]
    result = computation.mapped(lambda expr: rewrite_indices(rewrite(expr, axes={axis: place}), simplified_index))
    all_axes = (*computation.axes[:dim], *axes, *computation.axes[dim + 1 :])
    return Computation(result.name, all_axes, result.reduce_axes, result.bodies, result.attrs)


def restrict_reads(reader: Computation, old: Tensor, new: Tensor, dim: int, elements: StridedElements) -> Computation:
    """The computation reading ``new``, which has only some elements of a dimension, instead of ``old``."""

    def at(read: Read) -> Read:
        index = simplified_index((read.indices[dim] - elements.first) // elements.step)
        return Read(new, (*read.indices[:dim], index, *read.indices[dim + 1 :]))

    return reader.mapped(lambda expr: rewrite_reads(expr, old, at))
