"""Which tensors are made in digits, so that what reshapes and transposes them moves nothing.

A product that makes 256 columns of which a Reshape makes 4 heads of 64 computes (rows, 4, 64) itself: each axis then is
one of whatever a Transpose does with it, and whoever reads the heads has indices that are linear in its own. Dimensions
are cut only as far as somebody asks for it. Heads that leave lanes empty are cheaper than moves that fill them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lathe.frontend.onnx.quant_graph import Layer, Lookup, Product, Reshape, TensorProduct, Transpose
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.mixed_radix import Shape, regrouped


@dataclass(eq=False)
class _Digit:
    """A digit of a dimension, perhaps cut into several."""

    extent: int
    parts: "list[_Digit]" = field(default_factory=list)

    def leaves(self) -> "Iterator[_Digit]":
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(eq=False)
class _Source:
    """A tensor that is made, and what is read in lanes of it and of what is moved from it."""

    shape: Shape
    digits: list[list[_Digit]]
    in_lanes: list[list[_Digit]] = field(default_factory=list)
    views: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AxisFactors:
    """Of tensors that are made in digits their extents, for each dimension; moves, by result, that move nothing."""

    of: Mapping[str, tuple[Shape, ...]]
    views: frozenset[str]


def digits_of(layers: Sequence[Layer], types: Mapping[str, TensorType]) -> AxisFactors:
    """The digits of what some layers read and make."""
    sources: dict[str, _Source] = {}
    seen: dict[str, tuple[_Source, list[list[_Digit]]]] = {}
    for layer in layers:
        for tensor in layer.inputs:
            if tensor not in seen:
                shape = types[tensor].shape
                source = _Source(shape, [[_Digit(size)] if size > 1 else [] for size in shape])
                sources[tensor], seen[tensor] = source, (source, source.digits)
        for place, tensor in enumerate(layer.inputs):
            source, dimensions = seen[tensor]
            last = len(dimensions) - 1
            source.in_lanes += [dimensions[last - min(n, last)] for n in _dimensions_in_lanes(layer, place)]
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


def _dimensions_in_lanes(layer: Layer, place: int) -> tuple[int, ...]:
    """Dimensions of an operand that a product sums over, counted from the last."""
    if isinstance(layer, Product):
        return (0,) if place == 0 else ()
    if isinstance(layer, TensorProduct):
        return (place,)
    return ()


def _moved(layer: Layer, dimensions: list[list[_Digit]], shape: Shape) -> list[list[_Digit]] | None:
    """The digits of what a layer makes, if these are its data's."""
    if isinstance(layer, Transpose):
        return [dimensions[n] for n in layer.order]
    if isinstance(layer, Lookup) and layer.table.ndim == 1:
        return dimensions
    if not isinstance(layer, Reshape):
        return None
    leaves = [leaf for dimension in dimensions for digit in dimension for leaf in digit.leaves()]
    cuts = _cuts([leaf.extent for leaf in leaves], shape)
    if cuts is None:
        return None
    for leaf, extents in zip(leaves, cuts, strict=True):
        if len(extents) > 1:
            leaf.parts = [_Digit(extent) for extent in extents]
    finer = [part for leaf in leaves for part in leaf.leaves()]
    groups = regrouped([leaf.extent for leaf in finer], shape)
    assert groups is not None, "digits are cut where dimensions begin"
    return [[finer[n] for n in group] for group in groups]


def _cuts(extents: Sequence[int], shape: Shape) -> list[list[int]] | None:
    """How digits have to be cut for the dimensions of a shape to begin with one; None where they cannot be.

    >>> _cuts([128, 256], (1, 128, 4, 64)), _cuts([6, 4], (8, 3))
    ([[128], [4, 64]], None)
    """
    found: list[list[int]] = [[] for _ in extents]
    at, left = 0, extents[0] if extents else 1
    for size in shape:
        need = size
        while need > 1:
            part = min(need, left)
            if need % part or left % part:
                return None
            found[at].append(part)
            need, left = need // part, left // part
            if left == 1:
                at += 1
                left = extents[at] if at < len(extents) else 1
    return found


def _fits(source: _Source) -> bool:
    """Whether all that is read in lanes is one and the same digit."""
    last = [[leaf for digit in dimension for leaf in digit.leaves()][-1:] for dimension in source.in_lanes]
    return len({id(leaf) for leaves in last for leaf in leaves}) < 2


def _extents(source: _Source) -> tuple[Shape, ...] | None:
    """The digits of a tensor that has others than its dimensions."""
    found = tuple(tuple(leaf.extent for digit in dimension for leaf in digit.leaves()) for dimension in source.digits)
    usual = tuple((size,) if size > 1 else () for size in source.shape)
    return None if found == usual or not any(found) else found
