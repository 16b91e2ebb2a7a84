"""A product with diagonal weights over whole elements: result and data in parts as wide as a diagonal is long."""

from dataclasses import replace

from lathe.scheduler.isel.chunk import Chunk, Operand, VectorOperand, VectorView, vectors


def vectors_of_diagonals(chunk: Chunk, data: Operand, weight: Operand) -> VectorView:
    """The chunk over elements of weights, each of which takes a part of the columns of result and data, or all.

    Parts are seen as elements of which some adjoin, as in DRAM where a memory of wider elements is loaded from. The
    view has addresses of whole elements: a loop over the parts of one does not move it. Raises RuleMismatch as
    ``vectors`` does, and if a part that the chunk writes has live lanes that it does not write.
    """
    assert weight.place is not None, f"{weight.tensor.name} in {weight.scope} has no place"
    element = weight.place.physical.element
    width = min(element.rows, element.cols)
    parted = replace(chunk, write=_in_parts(chunk.write, width))
    view = vectors(parted, operands=(_in_parts(data, width), weight))
    dst, (src, wgt) = view.write, view.reads
    chunk.emitter.check_covers(parted, dst)  # zeros beside a diagonal leave the other parts of an element as they are
    return replace(view, write=_whole(dst, chunk.write), reads=(_whole(src, data), wgt))


def _in_parts(operand: Operand, width: int) -> Operand:
    """The operand with columns of such a width, of which as many adjoin as make an element."""
    place = operand.place
    if place is None:
        return operand
    element = place.physical.element
    parts = element.cols // width
    physical = replace(place.physical, element=replace(element, cols=width), group=place.physical.group * parts)
    return replace(operand, place=replace(place, physical=physical, base=place.base * parts))


def _whole(parted: VectorOperand, operand: Operand) -> VectorOperand:
    """The same in whole elements."""
    assert parted.operand.place is not None, f"{operand.tensor.name} has no place"
    assert operand.place is not None, f"{operand.tensor.name} has no place"
    parts = operand.place.physical.element.cols // parted.operand.place.physical.element.cols
    steps = tuple(stride // parts for stride in parted.strides)
    return replace(parted, operand=operand, base=parted.base // parts, strides=steps)
