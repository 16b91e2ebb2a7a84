"""Vectorised view of a GEMM with diagonal weights: result and data are sliced to the length of a diagonal."""

from dataclasses import replace

from lathe.scheduler.isel.chunk import Chunk, Operand, VectorOperand, VectorView, vectors


def vectors_of_diagonals(chunk: Chunk, data: Operand, weight: Operand) -> VectorView:
    """Vectorise a chunk whose weight vectors each apply to a slice of the columns of result and data.

    Slices are treated as narrow vectors in contiguous groups. The resulting addresses are those of whole vectors, so a
    loop over the slices of one vector does not move it. Raises RuleMismatch as ``vectors`` does, and if a slice that
    the chunk writes has live lanes that it does not write.
    """
    assert weight.place is not None, f"{weight.tensor.name} in {weight.scope} has no address"
    element = weight.place.physical.element
    width = min(element.rows, element.cols)
    parted = replace(chunk, write=_in_parts(chunk.write, width))
    view = vectors(parted, operands=(_in_parts(data, width), weight))
    dst, (src, wgt) = view.write, view.reads
    chunk.emitter.check_covers(parted, dst)  # other slices of a vector are unchanged: zeros are added to them
    return replace(view, write=_whole(dst, chunk.write), reads=(_whole(src, data), wgt))


def _in_parts(operand: Operand, width: int) -> Operand:
    """The operand with its vectors sliced to this width, the slices of a vector as a contiguous group."""
    place = operand.place
    if place is None:
        return operand
    element = place.physical.element
    parts = element.cols // width
    physical = replace(place.physical, element=replace(element, cols=width), group=place.physical.group * parts)
    return replace(operand, place=replace(place, physical=physical, base=place.base * parts))


def _whole(parted: VectorOperand, operand: Operand) -> VectorOperand:
    """The same with addresses in whole vectors."""
    assert parted.operand.place is not None, f"{operand.tensor.name} is in no memory"
    assert operand.place is not None, f"{operand.tensor.name} is in no memory"
    parts = operand.place.physical.element.cols // parted.operand.place.physical.element.cols
    steps = tuple(stride // parts for stride in parted.strides)
    return replace(parted, operand=operand, base=parted.base // parts, strides=steps)
