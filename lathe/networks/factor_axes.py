"""Splitting of dimensions into factors (digits), so that Reshape and Transpose become views without data movement.

A matmul with 256 columns, which a Reshape splits into 4 heads of 64, computes (rows, 4, 64) directly. Then a Transpose
only permutes axes, and consumers of the heads have indices that are linear in their own. Dimensions are split only as
far as a consumer needs. Heads that leave lanes empty are cheaper than data movement that fills them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lathe.frontend.onnx.quant_graph import Layer, Lookup, Product, Reshape, TensorProduct, Transpose
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.mixed_radix import Shape, regrouped


@dataclass(eq=False)
class _Digit:
    """A factor of a dimension, which may be split into ``parts``."""

    extent: int
    parts: "list[_Digit]" = field(default_factory=list)

    def leaves(self) -> "Iterator[_Digit]":
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(eq=False)
class _Source:
    """A computed tensor; ``in_lanes``: its dimensions that matmuls reduce along; ``views``: views of it."""

    shape: Shape
    digits: list[list[_Digit]]
    in_lanes: list[list[_Digit]] = field(default_factory=list)
    views: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AxisFactors:
    """The extents of the factors of each dimension of split tensors, and the results that become views."""

    of: Mapping[str, tuple[Shape, ...]]
    views: frozenset[str]


def axis_factors(layers: Sequence[Layer], types: Mapping[str, TensorType]) -> AxisFactors:
    """Choose the factors of the tensors that layers read and compute."""
    sources: dict[str, _Source] = {}
    seen: dict[str, tuple[_Source, list[list[_Digit]]]] = {}
    for layer in layers:
        for tensor in layer.inputs:
            if tensor not in seen:
                shape = types[tensor].shape
                source = _Source(shape, [[_Digit(size)] if size > 1 else [] for size in shape])
                sources[tensor], seen[tensor] = source, (source, source.digits)
        for index, tensor in enumerate(layer.inputs):
            source, dimensions = seen[tensor]
            last = len(dimensions) - 1
            source.in_lanes += [dimensions[last - min(n, last)] for n in _dimensions_in_lanes(layer, index)]
        source, dimensions = seen[layer.inputs[0]]
        moved = _moved(layer, dimensions, types[layer.output].shape)
        if moved is not None:
            seen[layer.output] = source, moved
            source.views += [] if isinstance(layer, Lookup) else [layer.output]
    fit = {tensor: source for tensor, source in sources.items() if source.views and _fits(source)}
    return AxisFactors(
        {tensor: found for tensor, source in fit.items() if (found := _extents(source)) is not None},
        frozenset(view for source in fit.values() for view in source.views),
    )


def _dimensions_in_lanes(layer: Layer, index: int) -> tuple[int, ...]:
    """The reduction dimensions of a matmul's operand, counted from the last."""
    if isinstance(layer, Product):
        return (0,) if index == 0 else ()
    if isinstance(layer, TensorProduct):
        return (index,)
    return ()


def _moved(layer: Layer, dimensions: list[list[_Digit]], shape: Shape) -> list[list[_Digit]] | None:
    """The factors of a layer's result, if the layer can be a view; None otherwise."""
    if isinstance(layer, Transpose):
        return [dimensions[n] for n in layer.order]
    if isinstance(layer, Lookup) and layer.table.ndim == 1:
        return dimensions
    if not isinstance(layer, Reshape):
        return None
    leaves = [leaf for dimension in dimensions for digit in dimension for leaf in digit.leaves()]
    splits = _splits([leaf.extent for leaf in leaves], shape)
    if splits is None:
        return None
    for leaf, extents in zip(leaves, splits, strict=True):
        if len(extents) > 1:
            leaf.parts = [_Digit(extent) for extent in extents]
    finer = [part for leaf in leaves for part in leaf.leaves()]
    groups = regrouped([leaf.extent for leaf in finer], shape)
    assert groups is not None, "factors must be split at the boundaries of dimensions"
    return [[finer[n] for n in group] for group in groups]


def _splits(extents: Sequence[int], shape: Shape) -> list[list[int]] | None:
    """How to split factors so that each dimension of a shape begins with one; None if that is impossible.

    >>> _splits([128, 256], (1, 128, 4, 64)), _splits([6, 4], (8, 3))
    ([[128], [4, 64]], None)
    """
    found: list[list[int]] = [[] for _ in extents]
    at, rest = 0, extents[0] if extents else 1
    for size in shape:
        need = size
        while need > 1:
            part = min(need, rest)
            if need % part or rest % part:
                return None
            found[at].append(part)
            need, rest = need // part, rest // part
            if rest == 1:
                at += 1
                rest = extents[at] if at < len(extents) else 1
    return found


def _fits(source: _Source) -> bool:
    """Whether all reductions are along the same innermost factor, which is then in lanes."""
    last = [[leaf for digit in dimension for leaf in digit.leaves()][-1:] for dimension in source.in_lanes]
    return len({id(leaf) for leaves in last for leaf in leaves}) < 2


def _extents(source: _Source) -> tuple[Shape, ...] | None:
    """The factors of a tensor; None if no dimension is split."""
    found = tuple(tuple(leaf.extent for digit in dimension for leaf in digit.leaves()) for dimension in source.digits)
    usual = tuple((size,) if size > 1 else () for size in source.shape)
    return None if found == usual or not any(found) else found
